"""Length of a completion: in tokens if it has token ids, otherwise in words or characters."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion

Unit = Literal["auto", "tokens", "words", "characters"]

# Scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, bopomofo, Han and its extensions.
_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_PUNCTUATION = (
    "!-/:-@\\[-`{-~\u00a1-\u00bf\u2000-\u206f\u3001-\u3004\u3008-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]++")
_SPACE = re.compile(r"\s")
_SHOWN = bytes(code for code in range(128) if chr(code).isprintable() or chr(code).isspace())
# What Unicode lists as Default_Ignorable beyond controls: the grapheme joiner, fillers, variation selectors.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_KINDS = bytes(ord(" " if code < 128 and chr(code).isspace() else "x") for code in range(256))

LONGEST_WORD = 20
"""Maximum length of one word, in characters. A longer one counts as several: a word of 41 characters as three."""
_TOO_LONG = b"x" * (LONGEST_WORD + 1)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}{_PUNCTUATION}]{{1,{LONGEST_WORD}}}+|[{_PUNCTUATION}]")


def words(text: str) -> list[str]:
    """Return the words of `text` in small letters. Each punctuation mark is one, as are characters of scripts without spaces.

    Vowel signs and other marks stay with their word, so Hindi and Tamil words are not split. A word longer than `LONGEST_WORD`
    is several. Characters that show nothing are left out, and letters of another shape (bold, fullwidth) are plain letters.
    """
    text = _shown(text)
    shapes = {ord(char): unicodedata.normalize("NFKC", char) for char in _rare(text) if char.isalpha()}
    return _WORD.findall(text.translate(shapes).casefold())


def length(completion: Completion, unit: Unit) -> tuple[int, str]:
    """Return the length of `completion`, and the unit in which it was counted.

    Raises:
        EnvironmentFailure: `unavailable`, because `unit` is tokens and the completion has no token ids.
    """
    if completion.token_ids is not None and unit in ("auto", "tokens"):
        return len(completion.token_ids), "tokens"
    if unit == "tokens":
        raise EnvironmentFailure(
            "unavailable", "unit='tokens', but the completion carries no token_ids; give them, or use unit='words'"
        )
    if unit == "characters":
        return len(completion.text), "characters"
    return count_words(completion.text), "words"


def count_words(text: str) -> int:
    """Return the number of words between spaces. Each character of a script without spaces counts as one word.

    A word longer than `LONGEST_WORD` counts as several. Characters that show nothing do not count.
    """
    # Bytes are counted several times as quickly as lists of words are made.
    text = _shown(text)
    rare = _rare(text)
    if _UNSPACED_RUN.search(rare):
        spaced, runs = _UNSPACED_RUN.subn(" ", text)
        return _split(spaced) + len(text) - len(spaced) + runs
    kinds = text.encode("utf-8", "surrogatepass").translate(_KINDS)
    if _TOO_LONG in kinds or _SPACE.search(rare):
        return _split(text)
    return kinds.count(b" x") + kinds.startswith(b"x")


def _split(text: str) -> int:
    return sum(-(-len(word) // LONGEST_WORD) for word in text.split())


def _shown(text: str) -> str:
    """Return `text` without the characters that show nothing: controls, formats (the zero-width space), fillers, selectors."""
    unseen = dict.fromkeys(ord(char) for char in _rare(text) if not char.isspace() and _is_unseen(char))
    return text.translate(unseen) if unseen else text


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") or _UNSEEN.match(char) is not None


def _rare(text: str) -> str:
    """Return the distinct characters of `text` that are neither printable ASCII nor its spaces: few, and looked at alone."""
    data = text.encode("utf-8", "surrogatepass").translate(None, _SHOWN)
    return "".join(set(data.decode("utf-8", "surrogatepass"))) if data else ""
