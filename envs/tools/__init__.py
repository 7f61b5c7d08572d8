"""Tools that a model calls in an episode, and `ToolEnvironment`, which adds tools to any environment of one turn.

- `function`: `@tool`, which makes a tool of a typed function, and the interface of tools that keep a state.
- `hermes`, `qwen_xml`: read the calls in a turn of a Hermes or Qwen model; `response_template`: reads those of other models, by
  the tokenizer's own description of its format; `call_formats`: the formats by name.
- `environment`: `ToolEnvironment`; `running`: runs the calls, and finds out whether the model's call or our side is to blame
  for a failure.
- `episode`: `run_episode`, a policy and a session taking turns.
- `calculator`, `python`: tools that are ready to use.
- `mcp`: tools of MCP servers, with `mcp_connection`, which talks to one, and `mcp_supervisor`, which ends it.
"""
