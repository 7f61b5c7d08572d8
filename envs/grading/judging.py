"""One item judged under the blame rule, whoever wrote the environment."""

from __future__ import annotations

import time

from verigym.envs.base import Environment
from verigym.envs.blame import control_completion, guarded, in_range
from verigym.envs.schema import Completion, Prompt, Score


def judge_one(environment: Environment, prompt: Prompt, completion: Completion | str) -> Score:
    """Score one completion; whatever a foreign environment raises or returns becomes a Score.

    Environments that extend BaseEnvironment keep the rule; those that only implement the protocol get it here.
    """
    start = time.perf_counter()

    def judge(candidate: Completion) -> Score:
        score = environment.score(prompt, candidate)
        return in_range(score, environment.reward_range) if isinstance(score, Score) else score

    floor = environment.reward_range[0]
    score = guarded(judge, Completion.of(completion), lambda: environment.gold(prompt), floor=floor)
    seconds = score.seconds or time.perf_counter() - start
    return score.model_copy(update={"grader": environment.grader, "seconds": seconds})


def control_one(environment: Environment, prompt: Prompt) -> Score:
    """Score the control item: the prompt's own gold, or a plain answer where none can be written."""
    return judge_one(environment, prompt, control_completion(environment.gold(prompt)))
