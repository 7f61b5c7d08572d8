"""Right answers: at least ten texts for each gold that mean what it means."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mathgen.golds import Gold
from mathgen.registry import Generator
from mathgen.rewrite_layout import LAYOUT
from mathgen.rewrite_shape import SHAPE
from mathgen.rewrite_values import VALUES
from mathgen.text import compact, seeded, shell

REWRITES: dict[str, Generator] = {**SHAPE, **VALUES, **LAYOUT}
WANTED = 10
_BARE = frozenset(("dollars_removed",))


def rewrites(gold: Gold, wanted: int = WANTED) -> list[tuple[str, str]]:
    """Return (name, text) of rewrites, all different; two or three are combined (`a+b`) where single ones are too few."""
    found: dict[str, str] = {}
    for name, text in _singles(gold, gold.text, _shuffled(gold, "single")):
        found.setdefault(text, name)
        if len(found) == wanted:
            break
    for _ in range(2):
        for text, first in list(found.items()) if len(found) < wanted else []:
            if first.endswith("full_stop"):  # what follows a full stop is another sentence
                continue
            # Only the layout changes what was changed: the other rewrites would misread "\\ 1,024." for a list.
            for second, both in _singles(gold, text, [name for name in _shuffled(gold, first) if name in LAYOUT]):
                if second not in first.split("+") and both != gold.text:
                    found.setdefault(both, f"{first}+{second}")
                if len(found) == wanted:
                    break
            if len(found) == wanted:
                break
    return [(name, text) for text, name in found.items()]


def _shuffled(gold: Gold, salt: str) -> list[str]:
    names = list(REWRITES)
    seeded(gold.dataset, gold.row, salt).shuffle(names)
    return names


def _singles(gold: Gold, text: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        new = REWRITES[name](text, gold.question, seeded(gold.dataset, gold.row, name))
        if new is None or new == text or (name not in _BARE and new == shell(text)):
            continue
        if name in LAYOUT or not _asked(new, gold.question):
            yield name, new


def _asked(text: str, question: str) -> bool:
    """Whether a formula stands in the question: `7(3y+2)` is no answer to "expand $7(3y+2)$"."""
    return re.search(r"[-+*/^(\\]", text) is not None and compact(shell(text)) in compact(question)
