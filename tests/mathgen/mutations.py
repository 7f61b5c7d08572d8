"""Wrong answers: at least ten texts for each gold that mean something else."""

from __future__ import annotations

from mathgen.golds import Gold
from mathgen.mutate_expressions import EXPRESSIONS
from mathgen.mutate_numbers import NUMBERS
from mathgen.mutate_shape import SHAPES
from mathgen.mutate_words import WORDS
from mathgen.registry import Generator, pure
from mathgen.rewrite_layout import words_into_text
from mathgen.text import compact, seeded, shell
from mathgen.value import differ

MUTATIONS: dict[str, Generator] = {**NUMBERS, **EXPRESSIONS, **SHAPES, **WORDS}
WANTED = 10
_ROUNDS = 40  # a few suffice but for words and formulas mixed, which few mutations fit


def mutations(gold: Gold, wanted: int = WANTED) -> list[tuple[str, str]]:
    """Return (name, text) of mutations, all different from the gold and from each other, and none that means the same."""
    found: dict[str, str] = {}
    source = gold.text if pure(gold.text) is not None else words_into_text(gold.text, "", seeded()) or gold.text
    for turn in range(_ROUNDS):
        names = list(MUTATIONS)
        seeded(gold.dataset, gold.row, "mutations", turn).shuffle(names)
        for name in names:
            new = MUTATIONS[name](source, gold.question, seeded(gold.dataset, gold.row, name, turn))
            if new and new not in found and changes(gold.text, new) and changes(source, new):
                found[new] = name
            if len(found) == wanted:
                break
        if len(found) == wanted:
            break
    return [(name, text) for text, name in found.items()]


def changes(gold: str, new: str) -> bool:
    """Whether a mutation changed something: not the layout alone, and not the form of one number alone."""
    return compact(shell(gold)) != compact(shell(new)) and differ(gold, new) is not False
