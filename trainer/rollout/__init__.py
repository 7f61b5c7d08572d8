"""Completions with their verdicts.

- `collect`: one step's groups, graded while other completions are still being generated; their rewards and metrics.
- `graders`: the graders of a mixture.
- `held_out`: evaluation on held-out prompts during a run.
- `group_json`: groups in checkpoints.
"""
