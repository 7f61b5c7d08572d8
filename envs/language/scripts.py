"""Scripts (Latin, Cyrillic, ...): the languages of each script, and the runs (unbroken pieces) and words of a text in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from verigym.envs.language.identify import LANGUAGES

LATIN = "Latin"

_RANGES = {
    LATIN: "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0300-\u036f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "Armenian": "\u0531-\u0588",
    "Hebrew": "\u0591-\u05f4",
    "Arabic": "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "Devanagari": "\u0900-\u0963\u0970-\u097f",
    "Bengali": "\u0980-\u09e5\u09f0-\u09ff",
    "Gurmukhi": "\u0a00-\u0a65\u0a70-\u0a7f",
    "Gujarati": "\u0a80-\u0ae5\u0af0-\u0aff",
    "Oriya": "\u0b00-\u0b65\u0b70-\u0b7f",
    "Tamil": "\u0b80-\u0be5\u0bf0-\u0bff",
    "Telugu": "\u0c00-\u0c65\u0c70-\u0c7f",
    "Kannada": "\u0c80-\u0ce5\u0cf0-\u0cff",
    "Malayalam": "\u0d00-\u0d65\u0d70-\u0d7f",
    "Sinhala": "\u0d80-\u0de5\u0df2-\u0df3",
    "Thai": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "Lao": "\u0e80-\u0ecf\u0edc-\u0edf",
    "Tibetan": "\u0f00\u0f40-\u0fbc",
    "Burmese": "\u1000-\u103f\u104c-\u108f",
    "Georgian": "\u10a0-\u10ff\u1c90-\u1cbf",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "Ethiopic": "\u1200-\u135f\u1380-\u139f",
    "Khmer": "\u1780-\u17d3",
    "Kana": "\u3041-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "Han": "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
}
_RUN = re.compile("|".join(f"(?P<{name}>[{characters}]++)" for name, characters in _RANGES.items()))
_NONE = "\\s!-@\\[-`{-~\u00a1-\u00a9\u00ab-\u00b9\u00bb-\u00bf\u2000-\u206f\u3001\u3002"
_ONLY = {name: re.compile(f"[{characters}{_NONE}]*+") for name, characters in _RANGES.items()}

_WRITTEN = {
    "Greek": "el",
    "Cyrillic": "be bg kk ky mk mn ru sr tg tt uk ba uz",
    "Armenian": "hy",
    "Hebrew": "he",
    "Arabic": "ar fa ur ps ug ku",
    "Devanagari": "hi mr ne",
    "Bengali": "as bn",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Tibetan": "dz",
    "Burmese": "my",
    "Georgian": "ka",
    "Hangul": "ko",
    "Ethiopic": "am",
    "Khmer": "km",
    "Kana": "ja",
    "Han": "ja zh ko",
}
_ALSO_LATIN = frozenset({"sr", "ku", "uz", "tt"})

WRITTEN: Mapping[str, frozenset[str]] = {name: frozenset(codes.split()) for name, codes in _WRITTEN.items()}
"""Languages of each script but Latin."""

_OTHERS = frozenset().union(*WRITTEN.values())
SCRIPTS_OF: Mapping[str, frozenset[str]] = {
    code: frozenset(
        [name for name, codes in WRITTEN.items() if code in codes]
        + ([LATIN] if code in _ALSO_LATIN or code not in _OTHERS else [])
    )
    for code in sorted(LANGUAGES)
}
"""Scripts in which each language is written."""


CHARACTERS_A_WORD: Mapping[str, float] = {"Han": 2, "Kana": 2, "Thai": 4, "Lao": 4, "Khmer": 4, "Burmese": 4}
"""Number of letters that count as one word, in scripts without spaces between words. Estimates, close to word segmenters."""


LONGEST_WORD = 20
"""Maximum length of one word, in letters. A longer word counts as several: a word of 41 letters counts as three."""
_GLUE = re.compile(r"[\s!-&(-/:-@\[-`{-~\u2010-\u2015\u2026]++")
"""What parts words: spaces, and signs that would join them; not the apostrophe."""


def words(script: str, pieces: Sequence[str], letters: int) -> float:
    """Return the estimated number of words in the pieces of a text in one script; see `LONGEST_WORD`.

    Args:
        script: script of all pieces.
        pieces: whole sentences, or the runs of this script in one sentence.
        letters: number of letters in all pieces together.
    """
    if script in CHARACTERS_A_WORD:
        return letters / CHARACTERS_A_WORD[script]
    candidates = (word for piece in pieces for word in _GLUE.split(piece) if _RUN.search(word))
    return float(sum(-(-len(word) // LONGEST_WORD) for word in candidates))


def only_script(text: str) -> str | None:
    """Return the script of the letters in `text` if they all have the same one, else None. Ten times as fast as `runs`."""
    first = _RUN.search(text)
    script = str(first.lastgroup) if first else LATIN
    return script if _ONLY[script].fullmatch(text) else None


def in_script(char: str) -> bool:
    """Return whether `char` is a letter, or a mark on a letter, of a script that this module knows."""
    return _RUN.match(char) is not None


def runs(text: str) -> dict[str, list[str]]:
    """Return, for each script, its words or parts of words in `text`, in order."""
    by_script: dict[str, list[str]] = {}
    for run in _RUN.finditer(text):
        by_script.setdefault(str(run.lastgroup), []).append(run.group())
    return by_script
