"""Find contamination: evaluation prompts that share an n-gram of words with training texts (GPT-3, 2005.14165, app. C: n = 13).

Words are runs of letters and digits, normalised by NFKC and without case; each Chinese or Japanese character is a word. Only
the task's own words are compared, not the words of a template around them. A task of fewer than n words is searched for as a
whole. Text that many tasks share is not contamination, so n-grams in at least `common` evaluation prompts are ignored.
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
class ContaminatedPrompt:
    """A prompt that shares an n-gram with a training text."""

    prompt: int
    """Its number."""
    ngrams: int
    """Its n-grams that were found."""
    of: int
    """All its n-grams."""
    example: str
    """One n-gram that was found."""
    where: str
    """Name of the first training text that contains it."""


def words(text: str) -> list[str]:
    """Return the normalised words of `text`, in order, from which its n-grams are made."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def ngrams(text: str, n: int = NGRAM) -> set[tuple[str, ...]]:
    """Return the set of n-grams of words in `text`; it is empty if `text` has fewer than `n` words."""
    found = words(text)
    return {tuple(found[start : start + n]) for start in range(len(found) - n + 1)}


@dataclass(frozen=True)
class OwnText:
    """A task's own text, without the words that a template or description adds to every prompt of the source."""

    whole: str
    """The question, searched for as a whole if no run has n words."""
    runs: tuple[str, ...] = ()
    """The parts of the question between words that a template added; when left out, the whole question is one part."""

    def ngrams(self, n: int) -> set[tuple[str, ...]]:
        """Return the set of n-grams of the task's own text; none spans words that a template added.

        If all runs have fewer than `n` words, return the whole text as one n-gram; if it has no words, return an empty set.
        """
        found = {gram for run in self.runs or (self.whole,) for gram in ngrams(run, n)}
        whole = tuple(words(self.whole))
        return found or ({whole} if whole else set())


def contaminated(
    prompts: Sequence[OwnText], training: Iterable[tuple[str, str]], *, n: int = NGRAM, common: int = 10
) -> list[ContaminatedPrompt]:
    """Return, in order, the prompts that share an n-gram with a training text.

    Training texts are read once and not stored, so the memory needed depends on the prompts alone.

    Args:
        prompts: the own texts of evaluation prompts.
        training: (name, text) of each training text.
        n: number of words of an n-gram.
        common: n-grams in at least this many prompts are ignored; at least 2.

    Raises:
        ValueError: `n` or `common` is too small.
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
        text_words = words(text)
        for length in lengths:
            for start in range(len(text_words) - length + 1):
                gram = tuple(text_words[start : start + length])
                if gram in wanted:
                    found.setdefault(gram, name)
    hits = []
    for number, grams in enumerate(own):
        mine = sorted(grams & found.keys())
        if mine:
            hits.append(ContaminatedPrompt(number, len(mine), len(grams), " ".join(mine[0]), found[mine[0]]))
    return hits
