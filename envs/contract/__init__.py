"""The environment contract: prompts, completions, scores, errors and base classes.

- `schema`: `Prompt`, `Completion`, `Score` and their parts, as frozen pydantic models; `chat` reads chat messages for it.
- `errors`: `EnvironmentFailure`, `UsageError`, and one-line explanations of validation errors.
- `blame`: the blame rule, which turns an exception of `judge` into LIMIT (the completion's fault) or ERROR (the grader's).
- `base`: the `Environment` protocol, `BaseEnvironment`, `Options`, and the verdicts that `check_env` expects.
- `generated`: `GeneratedTasks`, the base class of environments that generate their tasks.
- `differences`: how two JSON records differ, in words.
"""
