"""How a composition judges a group when some of its parts judge whole groups and the others single completions.

Each completion is judged as if it were alone, until a part that judges groups is asked about it. When all have come to such a
place or to their verdict, the first part asked for judges its group, and they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from verigym.envs.contract.schema import Completion, Score

EMPTY = Completion(text="", finish_reason="stop")


class VerdictNeeded(Exception):
    """A part is asked for its verdict, which it gives on the whole group."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


def gather(
    group: Sequence[Completion],
    parts: Sequence[str],
    judge: Callable[[int], Score],
    judge_part: Callable[[str, list[Completion]], None],
) -> list[Score]:
    """Return one score a completion.

    Args:
        group: the completions.
        parts: of the composition, in the order in which it asks them: who will ask for the first one wanted does so now.
        judge: judges the completion at a place; raises VerdictNeeded where a part's verdict is missing.
        judge_part: has a part judge the group, and remembers its verdicts. In it stand empty completions for those about which
            the part is not asked, such as those that a shut gate kept from it: in a comparison they have lost.
    """
    scores: dict[int, Score] = {}
    while len(scores) < len(group):
        asked: dict[int, str] = {}
        for place in range(len(group)):
            if place not in scores:
                try:
                    scores[place] = judge(place)
                except VerdictNeeded as need:
                    asked[place] = need.part
        for part in [part for part in parts if part in asked.values()][:1]:
            judge_part(part, [one if asked.get(place) == part else EMPTY for place, one in enumerate(group)])
    return [scores[place] for place in range(len(group))]
