"""Whether a function's time grows with its text, or with the square of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SHORT, TIMES, MOST = 40_000, 10, 20
"""Characters of the short text; how much longer the long one is; and how much longer it may take: 100 times is quadratic."""


def grows_linearly(function: Callable[[str], object], piece: str, begin: str = "", short: int = SHORT) -> bool:
    """Return whether a text made of a beginning and many pieces takes about as much longer as it is longer, in CPU time."""

    def seconds(size: int) -> float:
        text = begin + piece * (size // len(piece))
        begun = time.process_time()
        function(text)
        return time.process_time() - begun

    function(begin + piece)
    gc.disable()  # the collector passes over all that was made so far, again and again
    try:
        base = min(seconds(short) for _ in range(3))
        return seconds(short * TIMES) < MOST * base + 0.05
    finally:
        gc.enable()
