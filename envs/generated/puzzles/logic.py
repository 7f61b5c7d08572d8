"""`logic`: knights, who always tell the truth, and knaves, who always lie; exactly one assignment fits what they say."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.generated import TRIES, Made
from verigym.envs.generated.puzzles.base import TextOptions, TextPuzzle, TextReference, at
from verigym.envs.match.lists import split_items, unbracketed

PEOPLE = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jane", "Karl", "Lea")
SIZES = (2, 3, 4, 5, 7)

Kinds = Sequence[bool]
Claim = tuple[str, Callable[[Kinds], bool]]


def claim(rng: random.Random, names: Sequence[str], speaker: int) -> Claim:
    """Return a random statement of `speaker` about others or the number of knights, and a function that tests it.

    The function takes an assignment of who is a knight, and returns whether the statement is then true.
    """
    form = rng.randrange(5 if len(names) > 2 else 3)
    if form == 0:
        count = rng.randint(0, len(names))
        word = "knight" if count == 1 else "knights"
        return f"Exactly {count} of us {'is a' if count == 1 else 'are'} {word}.", lambda kinds: sum(kinds) == count
    one, *more = rng.sample([place for place in range(len(names)) if place != speaker], min(2, len(names) - 1))
    knight = rng.random() < 0.5
    kind = "knight" if knight else "knave"
    if form == 1:
        return f"{names[one]} is a {kind}.", lambda kinds: kinds[one] is knight
    if form == 2:
        return f"I am a knave, or {names[one]} is a {kind}.", lambda kinds: not kinds[speaker] or kinds[one] is knight
    other = more[0]
    if form == 3:
        words = f"{names[one]} and {names[other]} are of {'the same kind' if knight else 'different kinds'}."
        return words, lambda kinds: (kinds[one] == kinds[other]) is knight
    words = f"{names[one]} is a {kind}, or {names[other]} is a knight (or both)."
    return words, lambda kinds: kinds[one] is knight or kinds[other]


def solutions(claims: Sequence[Claim]) -> list[tuple[bool, ...]]:
    """Return every assignment under which exactly the knights make true statements."""
    found = []
    for kinds in itertools.product((False, True), repeat=len(claims)):
        if all(true(kinds) is kinds[speaker] for speaker, (_, true) in enumerate(claims)):
            found.append(kinds)
    return found


class LogicEnvironment(TextPuzzle[TextReference, TextOptions]):
    """Knights and knaves; the higher the level, the more of them."""

    name = "logic"
    version = "3"
    reference_type = TextReference
    options_type = TextOptions

    def make(self, rng: random.Random) -> Made:
        """Return a task: people and their statements, drawn again until there is exactly one solution."""
        names = sorted(rng.sample(PEOPLE, at(self.level, SIZES)))
        for _ in range(TRIES):
            claims = [claim(rng, names, speaker) for speaker in range(len(names))]
            found = solutions(claims)
            if len(found) == 1:
                break
        else:
            raise UsageError(f"{self.name!r}: {TRIES} draws gave no puzzle with one solution")
        said = " ".join(f'{name} says: "{words}"' for name, (words, _) in zip(names, claims, strict=True))
        question = (
            f"Knights always tell the truth, knaves always lie, and each of {', '.join(names)} is one or the other. {said} "
            "Who are the knights? Give their names, separated by commas, or none if there are none."
        )
        return Made(question, ", ".join(name for name, kind in zip(names, found[0], strict=True) if kind) or "none")

    def problem(self, reference: TextReference, answer: str) -> str:
        """The same names, each once, in any order."""
        given, right = people(answer), people(reference.answer)
        if len(set(given)) < len(given):
            return "a name stands twice"
        return "" if set(given) == set(right) else "other knights"


def people(text: str) -> list[str]:
    """Return the names in a list, in lower case. "and" parts them too."""
    text = unbracketed(text.casefold().strip(" ."))
    return split_items(re.sub(r"\band\b", ",", text.replace(", and ", ", ")), (";", ",", "\n") if ";" in text else ("\n", ","))
