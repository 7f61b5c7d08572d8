"""Which evaluation prompts stand in training texts, by n-grams of words (GPT-3, arXiv 2005.14165, appendix C: n = 13).

A prompt counts as contaminated where one of its n-grams is in a training text. Words are runs of letters and digits in NFKC and
without case; a Chinese or Japanese character is a word of its own. Only the task's own words are compared: an n-gram never
reaches into what a template puts around them. A task of fewer than n words is looked for as a whole. What many tasks share is
no contamination: n-grams that occur in at least `common` evaluation prompts are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NGRAM = 13
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")


@dataclass(frozen=True)
class Hit:
    """A prompt that was found."""

    prompt: int
    """Its number."""
    ngrams: int
    """How many of its n-grams were found."""
    of: int
    """How many it has."""
    example: str
    """One that was found."""
    where: str
    """Name of the training text it was first found in."""


def words(text: str) -> list[str]:
    """Return the words that are compared."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def ngrams(text: str, n: int = NGRAM) -> set[tuple[str, ...]]:
    """Return a text's n-grams: none where it has fewer words."""
    found = words(text)
    return {tuple(found[start : start + n]) for start in range(len(found) - n + 1)}


@dataclass(frozen=True)
class OwnText:
    """A task's own text: what its row says, without the words of a description or a template around it."""

    whole: str
    """The question, looked for as a whole where no run has n words."""
    runs: tuple[str, ...] = ()
    """Its parts between which somebody else's words stand; the whole when left out."""

    def ngrams(self, n: int) -> set[tuple[str, ...]]:
        """Return the n-grams of its runs; the whole where all are shorter, nothing where there are no words."""
        found = {gram for run in self.runs or (self.whole,) for gram in ngrams(run, n)}
        whole = tuple(words(self.whole))
        return found or ({whole} if whole else set())


def contaminated(
    prompts: Sequence[OwnText], training: Iterable[tuple[str, str]], *, n: int = NGRAM, common: int = 10
) -> list[Hit]:
    """Return the prompts that share an n-gram with a training text, in order.

    Training texts are gone over once and not kept: memory is that of the prompts.

    Args:
        prompts: the own texts of evaluation prompts.
        training: (name, text) of each training text.
        n: words of an n-gram.
        common: an n-gram in at least so many prompts is nobody's own; at least 2.

    Raises:
        ValueError: n or common is too small.
    """
    if n < 2 or common < 2:
        raise ValueError(f"expected n and common of at least 2, got n={n} and common={common}")
    own = [prompt.ngrams(n) for prompt in prompts]
    counts = Counter(gram for grams in own for gram in grams)
    own = [{gram for gram in grams if counts[gram] < common} for grams in own]
    wanted = {gram for grams in own for gram in grams}
    lengths = sorted({len(gram) for gram in wanted})
    found: dict[tuple[str, ...], str] = {}
    for name, text in training:
        said = words(text)
        for length in lengths:
            for start in range(len(said) - length + 1):
                gram = tuple(said[start : start + length])
                if gram in wanted:
                    found.setdefault(gram, name)
    hits = []
    for number, grams in enumerate(own):
        mine = sorted(grams & found.keys())
        if mine:
            hits.append(Hit(number, len(mine), len(grams), " ".join(mine[0]), found[mine[0]]))
    return hits
