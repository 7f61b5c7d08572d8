"""Judges one item or one group under the blame rule, for any environment."""

from __future__ import annotations

import time
from collections.abc import Sequence

from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import OURS, control_completion, describe, guarded, in_range, raised_by
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.grading.group_blame import Member, Refused, judged_together


def judge_one(environment: Environment, prompt: Prompt, completion: Completion | str) -> Score:
    """Return the score of one completion. Whatever the environment raises or returns becomes a Score.

    Environments that extend BaseEnvironment guarantee this themselves; for those that only implement the protocol, this
    function does it.
    """
    start = time.perf_counter()

    def judge(candidate: Completion) -> Score:
        score = environment.score(prompt, candidate)
        return in_range(score, environment.reward_range) if isinstance(score, Score) else score

    floor, hardened = environment.reward_range[0], is_hardened(environment)
    score = guarded(judge, Completion.of(completion), lambda: environment.gold(prompt), floor=floor, hardened=hardened)
    seconds = score.seconds or time.perf_counter() - start
    return score.model_copy(update={"grader": environment.grader, "seconds": seconds})


def control_one(environment: Environment, prompt: Prompt) -> Score:
    """Return the score of the prompt's control, a completion known to be valid: the gold, or a plain answer without a gold."""
    return judge_one(environment, prompt, control_completion(environment.gold(prompt)))


def is_hardened(environment: Environment) -> bool:
    """Return whether the environment declares that only a completion's text can make it raise.

    Environments need not have this attribute, `hardened`.
    """
    return bool(getattr(environment, "hardened", False))


def resources_of(environment: Environment) -> tuple[str, ...]:
    """Return which of `sandbox`, `lean` and `gpu` a cluster node needs to grade this environment.

    Environments need not have this attribute, `resources`.
    """
    return tuple(getattr(environment, "resources", ()))


def grades_groups(environment: Environment) -> bool:
    """Return whether the environment judges the completions of a prompt together; False if it does not say."""
    return bool(getattr(environment, "grades_groups", False))


def judge_group(environment: Environment, prompt: Prompt, completions: Sequence[Completion | None]) -> list[Score]:
    """Return the scores of the completions of one prompt, by `score_group` if the environment grades groups.

    A completion of None stands for the control item. A group of one is judged as a single item. If `score_group` raises,
    `group_blame.py` finds the completion at fault.
    """
    if len(completions) == 1 or not grades_groups(environment):
        return [control_one(environment, prompt) if c is None else judge_one(environment, prompt, c) for c in completions]
    start = time.perf_counter()

    def ask(group: Sequence[Member]) -> list[Score] | Refused:
        try:
            known = [control_completion(environment.gold(prompt)) if one is None else one for one in group]
            return _whole(environment, prompt, known)
        except EnvironmentFailure as ours:
            return [ours.score()] * len(group)
        except OURS as error:
            score = Score.failed("backend", describe(error), retryable=True)
            return [score.model_copy(update={"raised": raised_by(error)})] * len(group)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # as in `blame.guarded`
            raised = None if is_hardened(environment) else raised_by(error)
            return Refused("internal", f"the grader raised {describe(error)}", raised)

    floor = environment.reward_range[0]
    scores = judged_together(ask, completions, floor)
    seconds = (time.perf_counter() - start) / len(scores) if scores else 0.0
    return [score.model_copy(update={"grader": environment.grader, "seconds": seconds}) for score in scores]


def _whole(environment: Environment, prompt: Prompt, group: Sequence[Completion]) -> list[Score]:
    scores = environment.score_group(prompt, group)  # type: ignore[attr-defined]
    if len(scores) != len(group) or not all(isinstance(score, Score) for score in scores):
        raise TypeError(f"score_group of {environment.name!r} did not return one Score for each of {len(group)} completions")
    return [in_range(score, environment.reward_range) for score in scores]
