"""Finds the answer in a completion, for answers that are not mathematics."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from verigym.envs.extraction.boxes import scan
from verigym.envs.extraction.fences import blocks
from verigym.envs.extraction.methods import after_label, extract
from verigym.envs.latex.formatting import strip_formatting
from verigym.envs.latex.units import known_unit
from verigym.envs.match.kind import Where

_SCALE = re.compile(
    r"_|\\?%|\uff05|(?:percent|hundred|thousand|million|billion|trillion|lakh|crore|dozen)(?![A-Za-z])", re.IGNORECASE
)
"""What changes the number before it, at the start of what follows a box; all else that `after_box` returns is a unit."""
_REACH = 120
_POWER = r"(?:[ ]?\^[ ]?\{?(?:-?[1-9]|\\circ)\}?|[\u00b2\u00b3])?"
_JOINED = re.compile(
    rf"{_POWER}[ $}}]{{0,4}}{_POWER}[ $]{{0,4}}"
    r"(?:[-+*/\u00d7\u00b7\u00f7\u00b1\u2212\u2013]|\\(?:times|cdot|div|pm)(?![A-Za-z])"
    r"|[,(]?[ ]?(?P<other>or)[ ](?:(?:maybe|perhaps|possibly|probably|even|else)[ ])?)[ $(]{0,4}[0-9][0-9.,]{0,20}"
    r"[ $]{0,4}(?:\\(?:text|mathrm)[ ]?\{[ ]?)?(?P<unit>[A-Za-z]{0,20})"
)
"""An operator or "or" after a unit, and a number."""
_OPTION = re.compile(
    r"^[ \t>*#_-]*(?:the )?(?:correct|right|best|chosen) (?:option|choice|letter)[ \t*_]*[:\uff1a]",
    re.IGNORECASE | re.MULTILINE,
)


class Place(NamedTuple):
    """The answer; or None, and why it cannot be taken."""

    text: str | None
    how: str


class Readings(NamedTuple):
    """The answer as it may be read, best first; none, and why it cannot be taken."""

    texts: tuple[str, ...]
    how: str


def find_answer(text: str, places: Sequence[Where], tags: Sequence[str] = ()) -> Place:
    """Return the answer as `find_readings` finds it, without a unit behind its box."""
    texts, how = find_readings(text, places, tags)
    return Place(texts[-1] if texts else None, how)


def find_readings(text: str, places: Sequence[Where], tags: Sequence[str] = ()) -> Readings:
    r"""Return the answer at the first of `places` that has an answer; `text` is the completion without its thinking.

    Signs that nobody sees, such as spaces without width, are left out, but not of a fenced block or of the whole text.
    Of fenced blocks, those whose language is in `tags` outrank the others. If a place occurs several times in `text`, its last
    occurrence counts. No answer is returned if the box has only a part of the stated answer (`-\boxed{5}`, or two boxes joined
    by "or").

    What follows a box and changes its number (`%`, "million", a base) belongs to the answer. A unit need not: `\boxed{288} km`
    is read as "288 km" and as "288".
    """
    for place in places:
        if place == "boxed":
            extraction = extract(text, ("boxed",))
            if extraction is None:
                continue
            if extraction.part or extraction.row is not None or (extraction.after and _goes_on(text, extraction.after)):
                return Readings((), "the box holds only a part of the answer")
            return Readings(_with_unit(_seen(extraction.text).strip(), extraction.after), "boxed")
        inner = _fenced(text, tags) if place == "fence" else _PLACES[place](text)
        if inner is not None:
            return Readings(((_seen(inner) if place in ("tag", "label") else inner).strip(),), place)
    return Readings((), f"no answer found as {' or '.join(places)}")


def _goes_on(text: str, after: str) -> bool:
    r"""Return whether more of the answer follows the unit `after` of the last box: `\boxed{5} km + 3`, `\boxed{5} km or 6 km`.

    Another unit after "or" gives the same answer again: `\boxed{5} km or 5000 m`.
    """
    end = scan(text)[-1].after
    last = (strip_formatting(after).split() or [""])[-1].rstrip("^23{}\u00b2\u00b3")
    unit = re.compile(rf"(?<![A-Za-z]){re.escape(last)}(?![A-Za-z])").search(text, end, end + _REACH) if last else None
    joined = _JOINED.match(text, unit.end()) if unit else None
    if joined is None:
        return False
    other = known_unit(joined["unit"]) if joined["other"] else None
    return other is None or other == known_unit(last)


def _with_unit(content: str, after: str) -> tuple[str, ...]:
    """Return the answer with the unit behind its box, and without."""
    suffix = strip_formatting(after)
    scale = _SCALE.match(suffix)
    if scale is None:
        bare = content
    elif suffix[0] == "_":
        return (content + suffix,)
    else:
        bare = f"{content} {scale[0]}" if scale[0].isalpha() else content + scale[0]
    if not content:
        return ("",)
    return tuple(dict.fromkeys((f"{content} {suffix}", content + suffix, bare) if suffix else (bare,)))


def _labelled(text: str) -> str | None:
    """Return the rest of the line after the last `Answer:`, or after a later line that begins with `Correct option:`."""
    ends = [option.end() for option in _OPTION.finditer(text)]
    return after_label(f"answer: {text[ends[-1] :]}" if ends else text)


def _seen(text: str) -> str:
    return text if text.isascii() else "".join(char for char in text if unicodedata.category(char) != "Cf")


def _tagged(text: str) -> str | None:
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    return text[start + len("<answer>") : end] if start >= 0 else None


def _fenced(text: str, tags: Sequence[str]) -> str | None:
    fences, _ = blocks(text)
    of_kind = [block for block in fences if block.tag in tags] or fences
    return of_kind[-1].code(text) if of_kind else None


_PLACES: dict[Where, Callable[[str], str | None]] = {"tag": _tagged, "label": _labelled, "all": str}
