"""Length of a completion: in tokens if it has token ids, otherwise in words or characters."""

from __future__ import annotations

import re
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
_ASCII = bytes(range(128))
_SPACE = re.compile(r"\s")
_KINDS = bytes(ord(" " if code < 128 and chr(code).isspace() else "x") for code in range(256))
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}{_PUNCTUATION}]++|[{_PUNCTUATION}]")


def words(text: str) -> list[str]:
    """Return the words of `text`. Punctuation marks, and characters of scripts without spaces, are a word each.

    Vowel signs and other marks stay with their word, so Hindi and Tamil words are not split.
    """
    return _WORD.findall(text)


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
    """Return the number of words between spaces. Each character of a script without spaces counts as one word."""
    # Bytes are counted several times as quickly as lists of words are made.
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > len(text):
        # Few characters beyond ASCII are distinct, and those alone are looked at.
        rare = "".join(set(data.translate(None, _ASCII).decode("utf-8", "surrogatepass")))
        if _UNSPACED_RUN.search(rare):
            spaced, runs = _UNSPACED_RUN.subn(" ", text)
            return len(spaced.split()) + len(text) - len(spaced) + runs
        if _SPACE.search(rare):
            return len(text.split())
    kinds = data.translate(_KINDS)
    return kinds.count(b" x") + kinds.startswith(b"x")
