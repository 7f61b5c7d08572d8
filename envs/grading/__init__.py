"""Grading in bulk: the Grader with its worker processes, kill rule, retries and cache.

- `grader` is the API. `engine` holds the grader's threads, each of which owns one worker (`workers`).
- `process` starts a worker's process, which runs `child`; both exchange messages through `channel`.
- `judging` applies the blame rule (completion or grader at fault?) to exceptions of an environment, `kill_rule` to workers that
  die or hang, and `group_blame` to groups. `breaker` stops grading with an environment that keeps crashing its workers.
- `cache` stores verdicts, and `stats` counts results.
- `reward_function` makes an environment the reward function of another trainer.
"""

from verigym.envs.grading.grader import Grader, Item
from verigym.envs.grading.judging import grades_groups, judge_group, judge_one
from verigym.envs.grading.reward_function import RewardFunction, reward_function
from verigym.envs.grading.stats import GraderStats

__all__ = ["Grader", "GraderStats", "Item", "RewardFunction", "grades_groups", "judge_group", "judge_one", "reward_function"]
