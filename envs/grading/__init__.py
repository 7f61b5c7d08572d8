"""Grading in bulk: the Grader with its worker processes, kill rule, retries and cache.

`grader` is the API and `engine` its threads, each with one of `workers`, whose `process` runs `child` and exchanges frames by
`channel`. `judging` applies the blame rule to what an environment raises, `kill_rule` to workers that die or hang,
`group_blame` to groups; `breaker` stops asking an environment that keeps ending workers. `cache` keeps verdicts, `stats`
counts. `reward_function` makes an environment the reward function of another trainer.
"""

from verigym.envs.grading.grader import Grader, Item
from verigym.envs.grading.judging import grades_groups, judge_group, judge_one
from verigym.envs.grading.reward_function import RewardFunction, reward_function
from verigym.envs.grading.stats import GraderStats

__all__ = ["Grader", "GraderStats", "Item", "RewardFunction", "grades_groups", "judge_group", "judge_one", "reward_function"]
