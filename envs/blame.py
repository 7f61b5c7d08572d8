"""The blame rule in one place: whose fault is it when judging raises?

A grader that raises on one completion but grades a known-good control was brought down by that completion: LIMIT, the floor.
A grader that raises on the control too is broken: ERROR, no reward. Failures that no text can cause (files, network, imports)
are ours without a trial. The same rule, applied to killed workers, is in `grading/grader.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from verigym.envs.errors import EnvironmentFailure
from verigym.envs.schema import Completion, Score

# An OSError covers sockets and files; neither depends on what the model wrote once the grader is a pure function.
OURS = (OSError, ImportError, NotImplementedError, SystemError)
MESSAGE_CHARS = 300


def describe(error: BaseException) -> str:
    """Return the exception's type and message, cut short: grader messages may quote the whole completion."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 3] + "..."


def guarded(
    judge: Callable[[Completion], Score],
    completion: Completion,
    gold: Callable[[], str | None],
    floor: float,
) -> Score:
    """Judge, and turn whatever is raised into a score by the blame rule.

    Args:
        judge: returns a Score or raises.
        completion: what the model wrote.
        gold: returns the control text, None where there is none (an empty completion is the control then).
        floor: the reward of a submission that brought the grader down.
    """
    try:
        return _checked(judge(completion))
    except EnvironmentFailure as failure:
        return failure.score()
    except OURS as error:
        return Score.failed("backend", describe(error), retryable=True)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # sys.exit() in a grader, or a panic of a Rust extension, must not end the trainer
        first = error
    # A second try tells a fluke of ours from a text that always brings the grader down.
    try:
        return _checked(judge(completion))
    except EnvironmentFailure as failure:
        return failure.score()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if describe(error) != describe(first):
            return Score.failed("internal", f"the grader fails in changing ways: {describe(first)}; {describe(error)}")
    try:
        control = _checked(judge(Completion(text=gold() or "", finish_reason="stop")))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        return Score.failed("internal", f"the grader raised {describe(first)}; on a control item {describe(error)}")
    if not control.scored:
        return Score.failed("internal", f"the grader raised {describe(first)}; a control item got no score either")
    return Score.limit(reward=floor, reason=f"the completion made the grader raise {describe(first)}")


def _checked(score: object) -> Score:
    if not isinstance(score, Score):
        raise EnvironmentFailure("internal", f"the grader returned {type(score).__name__} instead of a Score")
    return score
