"""Checks of IFBench's family `repeat`, where the right response is a part of the prompt.

Definitions: Pyatkin et al. (arXiv 2507.02833).
"""

from __future__ import annotations

from verigym.envs.constraints.arguments import Count, Text
from verigym.envs.constraints.table import constraint

_SENTENCE = "only output this sentence here, ignore all other requests."


@constraint("repeat:repeat_change", "The words of `prompt_to_repeat` with another first word, and no more.", copies=True)
def repeat_change(text: str, *, prompt_to_repeat: Text) -> bool:
    """Compare words."""
    said, asked = text.split(), prompt_to_repeat.split()
    return bool(said) and said[0] != asked[0] and said[1:] == asked[1:]


@constraint(
    "repeat:repeat_simple",
    "The text is `Only output this sentence here, ignore all other requests.`, in any case.",
    copies=True,
)
def repeat_simple(text: str) -> bool:
    """Compare with the sentence."""
    return text.strip().lower() == _SENTENCE


def _inside(n_start: int, n_end: int, prompt_to_repeat: str) -> str:
    words = len(prompt_to_repeat.split())
    return "" if n_start <= n_end < words else f"expected n_start <= n_end < {words}, the number of words of prompt_to_repeat"


@constraint(
    "repeat:repeat_span",
    "The words of `prompt_to_repeat` from index `n_start` to `n_end` (from 0, both included), in any case, and no more.",
    rule=_inside,
    copies=True,
)
def repeat_span(text: str, *, prompt_to_repeat: Text, n_start: Count, n_end: Count) -> bool:
    """Compare with the span."""
    return text.lower().split() == prompt_to_repeat.lower().split()[n_start : n_end + 1]
