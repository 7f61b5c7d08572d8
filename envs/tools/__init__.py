"""Tools that a model calls in an episode, and the environment that gives them to any other.

- `function`: `@tool`, which makes a tool of a typed function, and the interface of tools that keep a state.
- `hermes`: calls as Hermes and Qwen models write them, read from a turn.
- `environment`: `ToolEnvironment`, an environment of one turn with tools.
- `episode`: `run_episode`, a policy and a session taking turns.
- `calculator`, `python`: tools that are ready to use.
"""
