"""Rollouts: sampled completions and episodes with their verdicts.

- `collect`: samples and grades one step's groups; computes their rewards and metrics.
- `episodes`, `turn_order`: completions of several turns; `episode_metrics`: their metrics.
- `graders`: opens the processes that grade a mixture and hold the sessions of its episodes.
- `held_out`: evaluates on held-out prompts during a run.
- `group_json`: converts groups to JSON and back, for checkpoints.
"""
