"""A curve in one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*#@"


def sparkline(values: Sequence[float | None], width: int, levels: str = BLOCKS) -> str:
    """Return `values` as a string of characters whose height rises from the lowest to the highest value.

    Args:
        values: the values in order; None leaves a blank.
        width: maximum number of characters. More values than that are averaged over almost equal ranges.
        levels: the characters, lowest first.
    """
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    edges = [len(values) * place // count for place in range(count + 1)]
    parts = [[value for value in values[start:end] if value is not None] for start, end in zip(edges, edges[1:], strict=False)]
    means = [fmean(part) if part else None for part in parts]
    known = [mean for mean in means if mean is not None]
    if not known:
        return " " * count
    low, high = min(known), max(known)
    span = high - low
    # A flat line stands in the middle: it is neither low nor high.
    middle = len(levels) // 2 - 1
    places = [None if mean is None else round((mean - low) / span * (len(levels) - 1)) if span else middle for mean in means]
    return "".join(" " if place is None else levels[place] for place in places)
