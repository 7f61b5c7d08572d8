"""Checks of IFBench's instructions about sentences.

Definitions: Pyatkin et al. (arXiv 2507.02833) and the benchmark's checkers.
"""

from __future__ import annotations

from itertools import pairwise

from verigym.envs.constraints.arguments import Count, Position, Text
from verigym.envs.constraints.matching import has_word
from verigym.envs.constraints.sentences import sentences
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.words import EDGES, bare, tokens, without_punctuation


@constraint(
    "sentence:alliteration_increment", "Each sentence has more words in runs of one first letter than the sentence before."
)
def alliteration_increment(text: str) -> bool:
    """Compare alliterations."""
    return all(one < other for one, other in pairwise(_alliteration(sentence) for sentence in sentences(text)))


def _alliteration(sentence: str) -> int:
    """Return how many words share their first letter with the word before or after."""
    letters = [word[0] for word in (word.lstrip(EDGES) for word in sentence.lower().split()) if word]
    same = [one == other for one, other in pairwise(letters)]
    return sum(before or after for before, after in zip([False, *same], [*same, False], strict=True))


@constraint("sentence:increment", "Each sentence has exactly `small_n` words more than the one before.")
def increment(text: str, *, small_n: Count) -> bool:
    """Compare numbers of words."""
    lengths = [len(without_punctuation(sentence).split()) for sentence in sentences(text)]
    return all(other == one + small_n for one, other in pairwise(lengths))


@constraint("sentence:keyword", "Sentence number `N` holds `word` as a whole word, in any case.")
def keyword(text: str, *, word: Text, N: Position) -> bool:
    """Look into one sentence."""
    found = sentences(text)
    return len(found) >= N and has_word(word, found[N - 1])


@constraint("words:keywords_specific_position", "Word number `m` of sentence number `n` is `keyword`, in any case.")
def keywords_specific_position(text: str, *, keyword: Text, n: Position, m: Position) -> bool:
    """Look at one word of one sentence."""
    found = sentences(text)
    if len(found) < n:
        return False
    words = [token for token in tokens(found[n - 1]) if any(character.isalnum() for character in token)]
    return len(words) >= m and words[m - 1].lower() == keyword.strip().lower()


@constraint("words:last_first", "Each sentence begins with the last word of the one before, in any case.")
def last_first(text: str) -> bool:
    """Compare ends with beginnings."""
    words = [[word for word in map(bare, sentence.lower().split()) if word] for sentence in sentences(text)]
    return all(one and other and one[-1] == other[0] for one, other in pairwise(words))
