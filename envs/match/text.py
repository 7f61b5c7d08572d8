r"""Kinds `exact` and `normalised`: the texts are equal, or equal if case, articles, punctuation and spacing are ignored.

Normalising follows SQuAD's evaluation script (arXiv 1606.05250), with these differences:
- Unicode is normalised first (NFKC), and hyphens, en dashes and minus signs become one sign.
- LaTeX commands for words are removed: `\text{Paris}` is "Paris".
- Signs between or before digits are kept: 3.5 is not 35, and -1 is not 1.
- A text that would become empty is kept: "The" stays "the".
"""

from __future__ import annotations

import re
import unicodedata

from verigym.envs.contract.errors import UsageError
from verigym.envs.latex.formatting import strip_formatting, unwrap_text
from verigym.envs.match.kind import Kind, MatchReference, Verdict

_ARTICLES = frozenset({"a", "an", "the"})
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"))


_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore),?\s)?\s*(?:(?:the|my)\s)?\s*(?:(?:correct|right|best|final)\s)?\s*"
    r"(?:answer|choice|option)\s*(?:\bis\b|:|=)\s*:?\s*(?=\S)",
    re.IGNORECASE,
)


def without_lead(text: str) -> str:
    """Return `text` without a phrase that only announces the answer: "The correct answer is B" is "B"."""
    lead = _LEAD.match(text)
    return text[lead.end() :] if lead else text


def golds(reference: MatchReference) -> list[str]:
    """Return the right answers as texts."""
    given = reference.answer if isinstance(reference.answer, list) else [reference.answer]
    return [value for value in given if isinstance(value, str)]


def _check(reference: MatchReference) -> None:
    given = reference.answer if isinstance(reference.answer, list) else [reference.answer]
    if not given or not all(isinstance(value, str) and value.strip() for value in given):
        raise UsageError(
            f"field 'answer': kind={reference.kind!r} needs a text or a list of texts; got {reference.answer!r:.80}"
        )


def normalised(text: str) -> str:
    """Return `text` in lower case, without punctuation and English articles, with single spaces."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", strip_formatting(text)).casefold()).translate(_DASHES)
    kept = "".join(char for at, char in enumerate(folded) if not _dropped(folded, at))
    words = kept.split()
    return " ".join([word for word in words if word not in _ARTICLES] or words) or " ".join(folded.split())


def _dropped(text: str, at: int) -> bool:
    char = text[at]
    if char in "#%" or not unicodedata.category(char).startswith("P"):
        return False
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if char == "-" and after == "." and text[at + 2 : at + 3].isdigit():
        return bool(before) and not before.isspace()  # -.5
    if not after.isdigit():
        return True
    return not (before.isdigit() or (char in "-." and (not before or before.isspace() or (before == "-" and char == "."))))


def _exact(reference: MatchReference, answer: str) -> Verdict:
    same = not {answer, unwrap_text(answer)}.isdisjoint(gold.strip() for gold in golds(reference))
    return Verdict(same, "the same text" if same else "another text")


def _normalised(reference: MatchReference, answer: str) -> Verdict:
    wanted = set(map(normalised, golds(reference)))
    same = normalised(answer) in wanted or normalised(without_lead(strip_formatting(answer))) in wanted
    return Verdict(same, "the same text, normalised" if same else "another text")


def _gold(reference: MatchReference) -> str:
    return golds(reference)[0]


EXACT = Kind(frozenset({"answer"}), _check, _exact, _gold)
NORMALISED = Kind(frozenset({"answer"}), _check, _normalised, _gold)
