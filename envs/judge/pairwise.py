"""Pairwise comparison in both orders, and comparison of all pairs of a group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.judge.endpoint import Spent
from verigym.envs.judge.replies import Verdict

WIN, TIE, LOSS = 1.0, 0.5, 0.0


@dataclass(frozen=True)
class Meeting:
    """How one answer fared against another."""

    points: float
    """1, 0.5 or 0 for the one; the other gets the rest."""
    agree: bool
    """Whether both orders gave the same winner, or both a tie."""
    reasoning: str
    spent: Spent

    def turned(self) -> Meeting:
        """Return the meeting as the other answer sees it."""
        return Meeting(1.0 - self.points, self.agree, self.reasoning, self.spent)


Ask = Callable[[str, str], tuple[Verdict, Spent]]
"""Shows the judge a first and a second answer."""


def meet(one: str, other: str, ask: Ask) -> Meeting:
    """Compare two texts in both orders and return the result. A text wins only if it wins in both orders; else it is a tie.

    Both orders are needed because judge models tend to prefer the answer in one of the two positions (Wang et al. 2023, Large
    Language Models are not Fair Evaluators). Zheng et al. 2023, Judging LLM-as-a-Judge, also count disagreement as a tie.
    """
    if one == other:
        return Meeting(TIE, True, "the same text", Spent())
    ahead, cost = ask(one, other)
    behind, more = ask(other, one)
    points = {"first": WIN, "second": LOSS, "tie": TIE}[str(ahead.value)]
    again = {"first": LOSS, "second": WIN, "tie": TIE}[str(behind.value)]
    agree = points == again
    reasoning = ahead.reasoning if agree else "the two orders disagree: a tie"
    return Meeting(points if agree else TIE, agree, reasoning, cost + more)


@dataclass(frozen=True)
class Standing:
    """How one answer of a group fared."""

    points: float
    """Mean over its opponents."""
    agree: float
    """Share of its meetings whose two orders agreed."""
    opponents: int
    spent: Spent
    """Cost of its meetings, each of which is an opponent's too."""


def round_robin(
    texts: Mapping[int, str], absent: int, compare: Callable[[str, str], Meeting], at_once: int
) -> dict[int, Standing | EnvironmentFailure]:
    """Compare each text of a group with every other text, once. Return each text's standing, that is its mean result.

    Args:
        texts: the texts by index in the group.
        absent: number of completions in the group that have no text. Each text wins against each of these without a request.
        compare: function that compares two texts; may raise EnvironmentFailure.
        at_once: number of comparisons that run at a time.

    Returns:
        For each index in `texts`, the text's standing, or the failure if one of its comparisons failed. In that case the mean
            over the remaining comparisons is not used, because it would not be comparable with the other texts' means.
    """
    pairs = list(itertools.combinations(texts, 2))

    def attempt(pair: tuple[int, int]) -> Meeting | EnvironmentFailure:
        try:
            return compare(texts[pair[0]], texts[pair[1]])
        except EnvironmentFailure as failure:
            return failure

    with ThreadPoolExecutor(max(1, min(at_once, len(pairs)))) as pool:
        results = dict(zip(pairs, pool.map(attempt, pairs), strict=True))
    standings: dict[int, Standing | EnvironmentFailure] = {}
    for place in texts:
        outcomes = [_seen_from(place, pair, result) for pair, result in results.items() if place in pair]
        failure = next((result for result in outcomes if isinstance(result, EnvironmentFailure)), None)
        meetings = [result for result in outcomes if isinstance(result, Meeting)]
        standings[place] = failure if failure is not None else _standing(meetings, absent)
    return standings


def _seen_from(place: int, pair: tuple[int, int], result: Meeting | EnvironmentFailure) -> Meeting | EnvironmentFailure:
    return result.turned() if isinstance(result, Meeting) and pair[1] == place else result


def _standing(meetings: Sequence[Meeting], absent: int) -> Standing:
    spent = sum((meeting.spent for meeting in meetings), Spent())
    return Standing(
        points=math.fsum([*(meeting.points for meeting in meetings), WIN * absent]) / (len(meetings) + absent),
        agree=(sum(meeting.agree for meeting in meetings) + absent) / (len(meetings) + absent),
        opponents=len(meetings) + absent,
        spent=spent,
    )
