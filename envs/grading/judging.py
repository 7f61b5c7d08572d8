"""One item judged under the blame rule, whoever wrote the environment."""

from __future__ import annotations

import time

from verigym.envs.base import Environment
from verigym.envs.blame import guarded
from verigym.envs.errors import EnvironmentFailure
from verigym.envs.schema import Completion, Prompt, Score


def judge_one(environment: Environment, prompt: Prompt, completion: Completion | str) -> Score:
    """Score one completion; whatever a foreign environment raises or returns becomes a Score.

    Environments that extend BaseEnvironment keep the rule; those that only implement the protocol get it here.
    """
    start = time.perf_counter()
    low, high = environment.reward_range

    def judge(candidate: Completion) -> Score:
        score = environment.score(prompt, candidate)
        if isinstance(score, Score) and score.reward is not None and not low <= score.reward <= high:
            raise EnvironmentFailure("internal", f"{environment.name} gave {score.reward}, outside its range {low}..{high}")
        return score

    score = guarded(judge, Completion.of(completion), lambda: environment.gold(prompt), floor=low)
    seconds = score.seconds or time.perf_counter() - start
    return score.model_copy(update={"grader": environment.grader, "seconds": seconds})


def control_one(environment: Environment, prompt: Prompt) -> Score:
    """Score the control item: the prompt's own gold, or an empty completion where none can be written."""
    return judge_one(environment, prompt, Completion(text=environment.gold(prompt) or "", finish_reason="stop"))
