"""Kind `choice`: multiple choice, answered by letter, by text or by either."""

from __future__ import annotations

import re
import string
import unicodedata

from verigym.envs.contract.errors import UsageError
from verigym.envs.latex.formatting import strip_formatting
from verigym.envs.match.kind import Kind, MatchReference, Verdict
from verigym.envs.match.lists import unquoted
from verigym.envs.match.text import normalised, without_lead

_LABEL_WORD = r"(?:(?:option|choice|answer|letter)\b[\s:]*+)?"
_LETTERED = re.compile(
    rf"{_LABEL_WORD}(?:[(\[]\s*(?P<marked>[a-z])\s*[)\]][.:]?|(?P<stopped>[a-z])[).:,]|(?P<plain>[a-z])(?![^\W_]))"
    r"(?:\s*[-\u2013\u2014:=]\s+|\s*)(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)
_LETTER_LAST = re.compile(r"(?P<text>.*\S)\s*[(\[]\s*(?P<marked>[a-z])\s*[)\]]\.?", re.IGNORECASE | re.DOTALL)
_BOLD = re.compile(r"(?P<mark>[*_]{1,3}|`)(?P<of>[^*_`]+)(?P=mark)")
# The letter A, and no article: in a bracket or before a stop; and where it is a capital.
_MARKED_A = re.compile(r"(?<![^\W_])a(?=\s*[)\].:])|(?<=[(\[])a(?![^\W_])", re.IGNORECASE)
_CAPITAL_A = re.compile(r"(?<![^\W_])A(?![^\W_])")
_ANY_A = re.compile(r"(?<![^\W_])a(?![^\W_])", re.IGNORECASE)

_PICTURES = ("So", "Mn")  # a check mark, and what chooses its colour


def _check(reference: MatchReference) -> None:
    letters = string.ascii_uppercase[: len(reference.choices)]
    if not 2 <= len(reference.choices) <= 26:
        raise UsageError(f"field 'choices': kind='choice' needs 2 to 26 texts; got {len(reference.choices)}")
    spelt = [normalised(choice) for choice in reference.choices]
    if reference.by != "letter" and len(set(spelt)) < len(spelt):
        raise UsageError("field 'choices': two are the same but for case and punctuation; use by='letter'")
    swapped = [c for c, text in zip(letters, spelt, strict=True) if len(text) == 1 and text.upper() in letters.replace(c, "")]
    if reference.by == "either" and swapped:
        raise UsageError(f"field 'choices': the text of {swapped[0]} is the letter of another; use by='letter' or by='text'")
    if _right(reference) is None:
        raise UsageError(
            f"field 'answer': expected one of the letters {letters} or of the choices; got {reference.answer!r:.80}"
        )


def _right(reference: MatchReference) -> int | None:
    """Return the number of the right choice. A gold may be written as letter or as text, whatever `by` says."""
    if not isinstance(reference.answer, str):
        return None
    if reference.answer in reference.choices:
        return reference.choices.index(reference.answer)
    place = string.ascii_uppercase.find(reference.answer.strip("() .").upper() or "?")
    return place if 0 <= place < len(reference.choices) and len(reference.answer.strip("() .")) == 1 else None


def _chosen(reference: MatchReference, answer: str) -> int | None:
    """Return the number of the choice that an answer names; None where it names none, or one by letter and another by text."""
    answer = unicodedata.normalize("NFKC", strip_formatting(answer)).strip().replace("\u3002", ".")
    answer = without_lead(answer.rstrip("".join(char for char in answer if unicodedata.category(char) in _PICTURES) + " "))
    if bold := _BOLD.fullmatch(answer):
        answer = bold["of"].strip()
    answer = unquoted(answer)
    if answer.startswith("{") and answer.endswith("}"):
        answer = answer[1:-1].strip()
    by_text = _by_text(reference, answer)
    if reference.by != "letter" and by_text is not None:
        return by_text
    if reference.by == "text":
        return None
    for pattern in (_LETTERED, _LETTER_LAST):
        match = pattern.fullmatch(answer)
        if match is None:
            continue
        letter = next(group for name, group in match.groupdict().items() if name != "text" and group)
        place = ord(letter.upper()) - ord("A")
        text = match["text"].strip()
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1]
        if place < len(reference.choices) and (not text or _by_text(reference, text) == place):
            return place
    return None


def _by_text(reference: MatchReference, answer: str) -> int | None:
    """Return the number of the choice with this text. An article does not matter, but the letter A is none."""
    spelt = normalised(answer)
    place = next((n for n, choice in enumerate(reference.choices) if normalised(choice) == spelt), None)
    if place:  # of the choice A itself it may be the letter
        own, answer = unicodedata.normalize("NFKC", reference.choices[place]), answer.rstrip(".")
        marked = len(_MARKED_A.findall(answer)) > len(_MARKED_A.findall(own.rstrip(".")))
        if marked or len(_CAPITAL_A.findall(answer)) > len(_ANY_A.findall(own)):
            return None
    return place


def _judge(reference: MatchReference, answer: str) -> Verdict:
    chosen = _chosen(reference, answer)
    if chosen is None:
        return Verdict(None, "none of the choices" if reference.by != "letter" else "no letter of a choice")
    return Verdict(chosen == _right(reference), f"choice {string.ascii_uppercase[chosen]}")


def _gold(reference: MatchReference) -> str:
    right = _right(reference) or 0
    return reference.choices[right] if reference.by == "text" else string.ascii_uppercase[right]


CHOICE = Kind(frozenset({"answer", "choices", "by"}), _check, _judge, _gold, ("boxed", "tag", "label"))
