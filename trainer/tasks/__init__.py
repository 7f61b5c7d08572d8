"""Tasks: which prompt is next.

- `mixture`: sources by weight, and the loading of a source; `curriculum`: known tasks again, by their pass rate
- `canaries`: tasks that no answer solves; `too_long`: prompts that are left out for their length
"""
