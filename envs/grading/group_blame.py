"""The blame rule for groups: which completion is at fault when grading a group fails?

Each completion is judged in a group of two with a control, a completion known to be valid. If this makes the grader fail, the
completion is at fault and gets LIMIT, with the floor reward. An empty completion replaces it, so that the others are judged in
a group of the same size. If the grader fails on controls alone, the grader is broken. If it fails on the group but on no
completion separately, no completion is at fault and none gets a reward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verigym.envs.contract.schema import Completion, ErrorKind, Raised, Score

EMPTY = Completion(text="", finish_reason="stop")
# Beside the control itself; another text, since two equal ones may be compared without a look at either.
BESIDE = Completion(text="Two and two is four.", finish_reason="stop")


@dataclass(frozen=True)
class Refused:
    """A group got no verdicts, and its texts may be the cause."""

    kind: ErrorKind
    why: str
    raised: Raised | None = None


Member = Completion | None
"""A completion, or None for the control: the prompt's own gold, or a plain answer if there is none."""
Ask = Callable[[Sequence[Member]], "list[Score] | Refused"]
"""Returns the verdicts on a group."""


def judged_together(ask: Ask, completions: Sequence[Member], floor: float) -> list[Score]:
    """Judge a group, and return one score for each of `completions`, in order. No text of a completion makes it raise.

    Args:
        ask: function that judges a group, and returns the scores or why there are none.
        completions: completions of one prompt; None stands for the control.
        floor: reward of a completion that made the grader fail.
    """
    reply = ask(completions)
    if isinstance(reply, Refused):
        reply = ask(completions)  # what goes wrong once in a while is nobody's text
    if not isinstance(reply, Refused):
        return reply
    checked = ask([None, BESIDE])
    if isinstance(checked, Refused) or not any(score.scored for score in checked):
        why = checked.why if isinstance(checked, Refused) else checked[0].reason
        return _failed(reply, f"{reply.why}; on control items {why}", len(completions))
    blamed: dict[int, Refused] = {}
    for place, completion in enumerate(completions):
        alone = ask([completion, None])
        if isinstance(alone, Refused):
            blamed[place] = alone
    if not blamed:
        return _failed(reply, f"{reply.why}, on the group but on none of its completions alone", len(completions))
    rest: list[Member] = [EMPTY if place in blamed else completion for place, completion in enumerate(completions)]
    again = ask(rest)
    scores = _failed(again, again.why, len(rest)) if isinstance(again, Refused) else again
    limits = {
        place: Score.limit(
            reward=floor, reason=f"the completion brought the grader down, beside a control too: {alone.why}"
        ).model_copy(update={"raised": alone.raised})
        for place, alone in blamed.items()
    }
    return [limits.get(place, score) for place, score in enumerate(scores)]


def _failed(refused: Refused, why: str, count: int) -> list[Score]:
    internal = refused.kind == "internal"
    score = Score.failed(refused.kind, f"no verdict on the group: {why}", retryable=not internal)
    return [score.model_copy(update={"raised": refused.raised if internal else None})] * count
