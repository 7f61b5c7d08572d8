"""The `code_with_feedback` environment: the model repairs a program after it has read the results of a few public tests.

- `environment`: the tasks and verdicts of `code`, with episodes in which public tests are run.
- `examples`: sample tasks.
"""
