"""The blame rule: decides whether the completion or the grader is at fault when judging raises an exception.

To decide, the grader also judges a control, which is a completion known to be valid. If only the completion makes the grader
raise, the completion is at fault and gets LIMIT, with the floor reward. If the control makes it raise too, the grader is
broken: the score is an ERROR without a reward. Failures that no text can cause (resources, network, imports) are the grader's,
and no control is needed. `grading/kill_rule.py` applies the same rule to worker processes that die or hang.
"""

from __future__ import annotations

import errno
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Raised, Score

OURS = (OSError, ImportError)
"""Exceptions that no text causes, but for an OSError in OF_ARGUMENTS."""
OF_ARGUMENTS = frozenset(
    getattr(errno, name)
    for name in "E2BIG EACCES EEXIST EILSEQ EINVAL EISDIR ELOOP ENAMETOOLONG ENOENT ENOEXEC ENOTDIR ENOTEMPTY EPERM".split()
)
"""Numbers of the OSErrors that a file's name or a command's arguments cause, which a judge may have taken from the text."""
# The control of an environment without golds. It must take the same path through the grader as a submission; an empty text
# would be rejected early and prove nothing.
CONTROL_TEXT = "<think>Two and two.</think>The answer is \\boxed{4}."
MESSAGE_CHARS = 300
TRACEBACK_CHARS = 4000
TRIES = 3
_OURS = tuple(
    str(Path(__file__).parents[1] / name)
    for name in ("contract/blame.py", "contract/base.py", "composition", "grading", "sessions")
)
_OTHERS_AT = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def describe(error: BaseException) -> str:
    """Return the type and message of `error`, shortened because a grader's message may quote the whole completion."""
    try:
        message = " ".join(str(error).split())
    except Exception as another:  # of the exception's own __str__
        message = f"its text cannot be had: {type(another).__name__}"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 3] + "..."


def raised_by(error: BaseException) -> Raised:
    """Return `error` as a `Raised` record.

    The record holds the error's text, the failing line (of the environment's own code if possible), and the traceback without
    verigym's own outer frames.
    """
    frames = traceback.extract_tb(error.__traceback__)
    while len(frames) > 1 and frames[0].filename.startswith(_OURS):
        del frames[0]
    own = [frame for frame in frames if not frame.filename.startswith(_OTHERS_AT)]
    at = (own or frames)[-1] if frames else None
    summary = describe(error)
    text = "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames), summary])
    place = f"{at.filename}:{at.lineno} in {at.name}" if at is not None else "judge"
    return Raised(error=summary, place=place, traceback=text[-TRACEBACK_CHARS:])


def guarded(
    judge: Callable[[Completion], Score],
    completion: Completion,
    gold: Callable[[], str | None],
    floor: float,
    *,
    hardened: bool = False,
) -> Score:
    """Return `judge(completion)`, or, if `judge` raises an exception, a score that says who is to blame.

    To find out, `judge` is called on a control, a completion that is known to be valid. If that raises too, the grader is to
    blame, and there is no reward. If it does not, and `judge(completion)` raises again, the completion is to blame and gets
    `floor`.

    Args:
        judge: function that returns a Score or raises an exception.
        completion: the completion to judge.
        gold: function that returns the text of the control, or None for the default control.
        floor: reward of a completion that is to blame for the exception.
        hardened: whether the author declares that only a completion's text can make `judge` raise. An exception is then not
            reported as a bug, unless the control raises too.
    """
    score, error = _guarded(judge, completion, gold, floor)
    broken = score.error is not None and score.error.kind == "internal"
    return score if error is None or (hardened and not broken) else score.model_copy(update={"raised": raised_by(error)})


def _guarded(
    judge: Callable[[Completion], Score], completion: Completion, gold: Callable[[], str | None], floor: float
) -> tuple[Score, BaseException | None]:
    """Return the score, and the exception that decided it, if any."""
    errors: list[BaseException] = []
    for attempt in range(TRIES):
        if attempt == TRIES - 1:
            # Grade the control before the last try: a grader that fails on it, or at random, is itself at fault.
            failure = _control_failure(judge, gold, describe(errors[-1]))
            if failure is not None:
                return failure, errors[-1]
        try:
            return _checked(judge(completion)), None
        except EnvironmentFailure as ours:
            return ours.score(), None
        except OURS as error:
            if not isinstance(error, OSError) or error.errno not in OF_ARGUMENTS:
                return Score.failed("backend", describe(error), retryable=True), error
            errors.append(error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # sys.exit() in a grader, or a panic of a Rust extension, must not end the trainer
            errors.append(error)
    return Score.limit(reward=floor, reason=f"the completion made the grader raise {describe(errors[-1])}"), errors[-1]


def _control_failure(judge: Callable[[Completion], Score], gold: Callable[[], str | None], raised: str) -> Score | None:
    """Grade the control; return the failure, or None if the control was graded."""
    try:
        control = _checked(judge(control_completion(gold())))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        return Score.failed("internal", f"the grader raised {raised}; on a control item {describe(error)}")
    if control.scored:
        return None
    return Score.failed("internal", f"the grader raised {raised}; a control item got no score either")


def control_completion(gold: str | None) -> Completion:
    """Return the completion with which the grader is tested: `gold`, or a plain answer if `gold` is None."""
    return Completion(text=CONTROL_TEXT if gold is None else gold, finish_reason="stop")


def _checked(score: object) -> Score:
    if not isinstance(score, Score):
        raise TypeError(f"the grader returned {type(score).__name__} instead of a Score (return Score.correct() or the like)")
    score.require_consistent()
    return score


def in_range(score: Score, reward_range: tuple[float, float]) -> Score:
    """Return `score` unchanged.

    Raises:
        ValueError: its reward is outside `reward_range`.
    """
    low, high = reward_range
    if score.reward is not None and not low <= score.reward <= high:
        raise ValueError(f"the grader gave {score.reward}, outside its range {low}..{high} (`reward_range` of the class)")
    return score
