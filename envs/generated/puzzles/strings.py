"""`strings`: operations on a word of random letters, one after the other."""

from __future__ import annotations

import random

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import TextOptions, TextPuzzle, TextReference, at
from verigym.envs.match.lists import unquoted

STEPS = (1, 2, 3, 4, 6)
LETTERS = (5, 6, 8, 10, 12)
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def _step(rng: random.Random, word: str) -> tuple[str, str]:
    """Return an operation in words and what it makes of the word; the result is never empty."""
    kind = rng.choice(("reverse", "left", "right", "replace", "remove", "swap", "second", "sort", "double"))
    letter, other = rng.choice(word), rng.choice(ALPHABET)
    count = rng.randint(1, max(1, len(word) - 1))
    if kind == "left":
        return f"move the first {count} letter(s) to the end", word[count:] + word[:count]
    if kind == "right":
        return f"move the last {count} letter(s) to the front", word[-count:] + word[:-count]
    if kind == "replace":
        return f"replace every {letter} by {other}", word.replace(letter, other)
    if kind == "remove" and word.replace(letter, ""):
        return f"remove every {letter}", word.replace(letter, "")
    if kind == "swap" and len(word) > 1:
        return "swap the first and the last letter", word[-1] + word[1:-1] + word[0]
    if kind == "second" and len(word) > 3:
        return "keep the first, third, fifth and so on and drop the rest", word[::2]
    if kind == "sort":
        return "sort the letters alphabetically", "".join(sorted(word))
    if kind == "double":
        return f"write every {letter} twice", word.replace(letter, letter * 2)
    return "reverse it", word[::-1]


class StringsEnvironment(TextPuzzle[TextReference, TextOptions]):
    """Operations on the letters of a word. A higher level means more operations and a longer word."""

    name = "strings"
    version = "2"
    reference_type = TextReference
    options_type = TextOptions

    def make(self, rng: random.Random) -> Made:
        """Draw a word and operations until the result is another word."""
        while True:
            start = word = "".join(rng.choice(ALPHABET) for _ in range(at(self.level, LETTERS)))
            steps = []
            for _ in range(at(self.level, STEPS)):
                words, word = _step(rng, word)
                steps.append(words)
            if word != start:
                return Made(f"Take the word {start}. In this order: {'; '.join(steps)}. What is the result?", word)

    def problem(self, reference: TextReference, answer: str) -> str:
        """Return what is wrong with `answer`, which must be the same text as the reference's answer.

        Case matters. Quotes around the answer are ignored.
        """
        return "" if reference.answer in (answer, unquoted(unquoted(answer))) else "another text"
