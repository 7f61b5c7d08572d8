"""Finds the answer in a completion, for answers that are not mathematics."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from verigym.envs.extraction.fences import blocks
from verigym.envs.extraction.methods import after_label, extract
from verigym.envs.match.kind import Where


class Place(NamedTuple):
    """The answer; or None, and why it cannot be taken."""

    text: str | None
    how: str


def find_answer(text: str, places: Sequence[Where], tags: Sequence[str] = ()) -> Place:
    r"""Return the answer at the first of `places` that has an answer; `text` is the completion without its thinking.

    Signs that nobody sees, such as spaces without width, are left out, but not of a fenced block or of the whole text.
    Of fenced blocks, those whose language is in `tags` outrank the others. If a place occurs several times in `text`, its last
    occurrence counts. No answer is returned if the box has only a part of the stated answer (`-\boxed{5}`, or two boxes joined
    by "or").
    """
    for place in places:
        if place == "boxed":
            extraction = extract(text, ("boxed",))
            if extraction is None:
                continue
            if extraction.part or extraction.row is not None:
                return Place(None, "the box holds only a part of the answer")
            return Place(_seen(extraction.text + extraction.after).strip(), "boxed")
        inner = _fenced(text, tags) if place == "fence" else _PLACES[place](text)
        if inner is not None:
            return Place((_seen(inner) if place in ("tag", "label") else inner).strip(), place)
    return Place(None, f"no answer found as {' or '.join(places)}")


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


_PLACES: dict[Where, Callable[[str], str | None]] = {"tag": _tagged, "label": after_label, "all": str}
