"""Tools that a model calls in an episode, and the environment that gives them to any other.

- `function`: `@tool`, which makes a tool of a typed function, and the interface of tools that keep a state.
- `hermes`, `qwen_xml`: calls as Hermes and Qwen models write them, read from a turn; `response_template`: as others do, by a
  declaration of the tokenizer; `call_formats`: the formats by name.
- `environment`: `ToolEnvironment`, an environment of one turn with tools; `running` runs their calls and finds who is to blame.
- `episode`: `run_episode`, a policy and a session taking turns.
- `calculator`, `python`: tools that are ready to use.
- `mcp`: tools of MCP servers, with `mcp_connection`, which talks to one, and `mcp_supervisor`, which ends it.
"""
