"""Checks of IFBench's family `words`, on properties of words.

Definitions: Pyatkin et al. (arXiv 2507.02833) and the benchmark's checkers.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from verigym.envs.constraints.arguments import Count, Text
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.words import PUNCTUATION, bare, tokens, without_punctuation
from verigym.envs.contract.errors import EnvironmentFailure

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_CLUSTER = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
_PRIMES = frozenset(number for number in range(2, 100) if all(number % divisor for divisor in range(2, number)))
_LONGEST_WORD = 100
"""Letters of a word that are looked at for syllables; no English word has more."""


@constraint("words:alphabet", "Each word begins with the next letter of the alphabet, a after z, from any letter on.")
def alphabet(text: str) -> bool:
    """Compare first letters."""
    letters = [word[0] for word in without_punctuation(text.lower()).split()]
    steps = all(one in _ALPHABET and other == _ALPHABET[(_ALPHABET.index(one) + 1) % 26] for one, other in pairwise(letters))
    return bool(letters) and letters[0] in _ALPHABET and steps


@constraint("words:consonants", "Each word between spaces has two consonants (not a, e, i, o, u) side by side.")
def consonants(text: str) -> bool:
    """Look for clusters."""
    return all(_CLUSTER.search(word) for word in text.lower().split())


@constraint("words:no_consecutive", "No two words in a row begin with the same letter, punctuation and case put aside.")
def no_consecutive(text: str) -> bool:
    """Compare first letters."""
    return all(one[0] != other[0] for one, other in pairwise(without_punctuation(text.lower()).split()))


@constraint(
    "words:odd_even_syllables",
    "Words with odd and even numbers of syllables alternate, as syllapy counts them.",
    needs=("syllapy",),
)
def odd_even_syllables(text: str) -> bool:
    """Compare parities."""
    try:
        import syllapy
    except ImportError:
        raise EnvironmentFailure("unavailable", "syllapy is missing; pip install 'verigym[constraints]'") from None
    parities = [syllapy.count(word[:_LONGEST_WORD]) % 2 for word in without_punctuation(text.lower()).split()]
    return all(one != other for one, other in pairwise(parities))


@constraint(
    "words:palindrome", "At least ten words of five characters or more read the same backwards, punctuation and case put aside."
)
def palindrome(text: str) -> bool:
    """Count palindromes."""
    words = without_punctuation(text).lower().split()
    return sum(len(word) >= 5 and word == word[::-1] for word in words) >= 10


@constraint(
    "words:paragraph_last_first",
    "Each line ends with the word with which it begins, punctuation at words' ends and case put aside.",
)
def paragraph_last_first(text: str) -> bool:
    """Compare ends of lines."""
    lines = [[word for word in map(bare, line.lower().split()) if word] for line in text.split("\n")]
    return all(words[0] == words[-1] for words in lines if words)


@constraint("words:prime_lengths", "The length of each word is a prime below 100, punctuation put aside.")
def prime_lengths(text: str) -> bool:
    """Check lengths."""
    return all(len(word) in _PRIMES for word in without_punctuation(text).split())


@constraint("words:repeats", "No word occurs more than `small_n` times, punctuation and case put aside.")
def repeats(text: str, *, small_n: Count) -> bool:
    """Count words."""
    return all(times <= small_n for times in Counter(without_punctuation(text.lower()).split()).values())


@constraint(
    "words:start_verb",
    "The first token is a verb to nltk's tagger of parts of speech.",
    missing="it needs nltk's model averaged_perceptron_tagger_eng, which no package carries; leave the instruction out",
)
def start_verb(text: str) -> bool:
    """Always raise EnvironmentFailure, since the check needs a model that no package provides.

    The instruction is registered only so that the table holds all of IFBench's instructions.
    """
    raise EnvironmentFailure("unavailable", "words:start_verb needs nltk's tagger model")


@constraint("words:vowel", "One paragraph without line breaks, with at most three different ones of a, e, i, o, u.")
def vowel(text: str) -> bool:
    """Count kinds of vowels."""
    return "\n" not in text.strip() and len(set(text.lower()) & set("aeiou")) <= 3


@constraint(
    "words:words_position", "The second token and the last but one are `keyword`, in any case, a mark at the end not counted."
)
def words_position(text: str, *, keyword: Text) -> bool:
    """Look at two words."""
    words = [token.lower() for token in tokens(text)]
    if words and words[-1] in PUNCTUATION:
        words.pop()
    wanted = keyword.strip().lower()
    return len(words) >= 2 and words[1] == wanted == words[-2]
