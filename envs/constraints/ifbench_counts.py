"""Checks of IFBench's instruction families `count` and `ratio`.

Definitions: Pyatkin et al. (arXiv 2507.02833) and the benchmark's checkers.
"""

from __future__ import annotations

import re
from functools import reduce

from verigym.envs.constraints.arguments import Count, Percentage, Position, Text
from verigym.envs.constraints.matching import count, has_word
from verigym.envs.constraints.sentences import sentences
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.wordlists import CONJUNCTIONS, PERSON_NAMES, PRONOUNS, STOP_WORDS
from verigym.envs.constraints.words import bare, count_words, runs, tokens, without_punctuation

_DIGITS = re.compile(r"\d+")
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_MARKS = frozenset(".,!?;:")
_OVERLAP_TOLERANCE = 2.0


@constraint("count:conjunctions", "At least `small_n` different ones of and, but, for, nor, or, so, yet.")
def conjunctions(text: str, *, small_n: Count) -> bool:
    """Count kinds of conjunctions."""
    return len({bare(word).lower() for word in text.split()} & CONJUNCTIONS) >= small_n


@constraint(
    "count:keywords_multiple", "`keyword1` to `keyword5` occur exactly 1, 2, 3, 5 and 7 times, in any case, inside words too."
)
def keywords_multiple(text: str, *, keyword1: Text, keyword2: Text, keyword3: Text, keyword4: Text, keyword5: Text) -> bool:
    """Count five keywords."""
    wanted = {1: keyword1, 2: keyword2, 3: keyword3, 5: keyword4, 7: keyword5}
    return all(count(keyword, text) == times for times, keyword in wanted.items())


@constraint("count:numbers", "Exactly `N` numbers: runs of digits, once ASCII punctuation is taken out.")
def numbers(text: str, *, N: Count) -> bool:
    """Count numbers."""
    return len(_DIGITS.findall(without_punctuation(text))) == N


@constraint(
    "count:person_names", "At least `N` different names of the fifty that the instruction lists, as whole words in their case."
)
def person_names(text: str, *, N: Count) -> bool:
    """Count names."""
    return sum(has_word(name, text, any_case=False) for name in PERSON_NAMES) >= N


@constraint("count:pronouns", "At least `N` tokens are pronouns of a list of 65; a slash parts words.")
def pronouns(text: str, *, N: Count) -> bool:
    """Count pronouns."""
    return sum(token in PRONOUNS for token in tokens(text.lower().replace("/", " "))) >= N


@constraint("count:punctuation", "Each of . , ! ? ; : occurs, and an interrobang (?!, !? or \u203d) beside them.")
def punctuation(text: str) -> bool:
    """Look for every mark."""
    pair = next((pair for pair in ("?!", "!?") if pair in text), "")
    if not pair and "\u203d" not in text:
        return False
    return set(text.replace(pair, "", 1) if pair else text) >= _MARKS


@constraint(
    "count:unique_word_count", "At least `N` different words between spaces, punctuation at their ends and case put aside."
)
def unique_word_count(text: str, *, N: Count) -> bool:
    """Count different words."""
    return len({bare(word) for word in text.lower().split()} - {""}) >= N


def _ordered(min_words: int, max_words: int) -> str:
    return "" if min_words <= max_words else f"min_words={min_words} is above max_words={max_words}"


@constraint(
    "count:word_count_range", "From `min_words` to `max_words` words (runs of letters, digits, underscores).", rule=_ordered
)
def word_count_range(text: str, *, min_words: Count, max_words: Count) -> bool:
    """Count words."""
    return min_words <= count_words(text) <= max_words


@constraint("count:words_japanese", "Every `N`th word between spaces holds a kana or a CJK character; numbers are passed over.")
def words_japanese(text: str, *, N: Position) -> bool:
    """Look at every Nth word."""
    every = [bare(word) for word in text.split()[N - 1 :: N]]
    return all(_JAPANESE.search(word) for word in every if word and not word.isdigit())


@constraint(
    "ratio:overlap", "`percentage` (give or take 2) of the text's different character trigrams occur in `reference_text`."
)
def overlap(text: str, *, reference_text: Text, percentage: Percentage) -> bool:
    """Compare sets of trigrams."""
    own, other = _trigrams(text), _trigrams(reference_text)
    return bool(own) and abs(100 * len(own & other) / len(own) - percentage) <= _OVERLAP_TOLERANCE


def _trigrams(text: str) -> set[str]:
    return {text[at : at + 3] for at in range(len(text) - 2)}


def _endings(text: str) -> tuple[int, int, int]:
    """Return how many sentences end in `.`, `?` and `!`."""
    zero = (0, 0, 0)
    ends = (sentence[-1] for sentence in sentences(text))
    return reduce(lambda sums, end: (sums[0] + (end == "."), sums[1] + (end == "?"), sums[2] + (end == "!")), ends, zero)


@constraint("ratio:sentence_balance", "As many sentences end in `.` as in `?` and as in `!`.")
def sentence_balance(text: str) -> bool:
    """Count kinds of sentences."""
    return len(set(_endings(text))) == 1


@constraint("ratio:sentence_type", "Twice as many sentences end in `.` as in `?`.")
def sentence_type(text: str) -> bool:
    """Count kinds of sentences."""
    stops, questions, _ = _endings(text)
    return stops == 2 * questions


@constraint("ratio:sentence_words", "Three sentences of the same number of characters.")
def sentence_words(text: str) -> bool:
    """Compare lengths."""
    lengths = [len(sentence) for sentence in sentences(text)]
    return len(lengths) == 3 and len(set(lengths)) == 1


@constraint("ratio:stop_words", "At most `percentage` of the words are stop words of nltk's English list.")
def stop_words(text: str, *, percentage: Percentage) -> bool:
    """Count stop words."""
    words = runs(text)
    return bool(words) and 100 * sum(word.lower() in STOP_WORDS for word in words) / len(words) <= percentage
