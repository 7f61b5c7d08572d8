"""Tools that a model calls in an episode, and the environment that gives them to any other.

- `function`: `@tool`, which makes a tool of a typed function, and the interface of tools that keep a state.
- `hermes`, `qwen_xml`: read the calls in a turn of a Hermes or Qwen model; `response_template`: reads those of other models, by
  the tokenizer's own description of its format; `call_formats`: the formats by name.
- `environment`: `ToolEnvironment`, which adds tools to an environment of one turn; `running`: runs the calls and finds out who
  is to blame for a failure.
- `episode`: `run_episode`, a policy and a session taking turns.
- `calculator`, `python`: tools that are ready to use.
- `mcp`: tools of MCP servers, with `mcp_connection`, which talks to one, and `mcp_supervisor`, which ends it.
"""
