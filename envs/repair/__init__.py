"""`code_with_feedback`: programs that are repaired after a look at what a few public tests say.

- `environment`: the tasks and verdicts of `code`, with episodes in which public tests are run.
- `examples`: sample tasks.
"""
