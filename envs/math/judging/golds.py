r"""Golds as data sets write them: plain, in `$...$` or `\boxed{...}`, after `####`, in a solution; what is wrong with one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from verigym.envs.extraction.boxes import box_row, scan
from verigym.envs.extraction.methods import after_final, after_hash
from verigym.envs.extraction.partial import beside
from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import Listing, Node, Phrase, Text

GoldBoxes = Literal["row", "last", "all"]

_PERCENT = re.compile(r"[\s$]*(?:\\?%|percent)")
_SAYS = re.compile(
    r"^(?:so |thus |therefore |hence )?,?\s*(?:the )?(?:final )?answer (?:is|should be):?\s+(?=\S)", re.IGNORECASE
)
MAX_FORMULA_CHARS = 80
"""A longer gold that holds a box is a solution."""
_UNCLOSED = re.compile(r"^\W{0,4}\\(?:boxed|fbox)\s*\{")


def gold_text(gold: str, boxes: GoldBoxes = "row") -> str:
    """Return the answer in a gold: what stands in its boxes, after its `####` or "final answer is", or all of it.

    Args:
        gold: the reference as it stands in the data.
        boxes: of several boxes, those joined by commas, `and`, `or` or nothing (row), the last, or all.
    """
    found = scan(gold)
    if found:
        if len(found) == 1 and len(gold) <= MAX_FORMULA_CHARS and beside(gold, found[0]) and is_formula(read_gold(gold)):
            return gold.strip()  # -\boxed{5}
        joined = box_row(gold, found) if boxes == "row" else None
        if joined:
            return joined.text
        chosen = found if boxes == "all" else found[-1:]
        percent = r"\%" if _PERCENT.match(gold[found[-1].after :]) else ""
        return ", ".join(box.content(gold) + percent for box in chosen)
    if "####" in gold:
        return after_hash(gold) or gold.strip()
    announced = after_final(gold) if len(gold) > 40 else None
    if announced:
        return announced
    text = _UNCLOSED.sub("", gold.strip())
    return _SAYS.sub("", text)


def is_formula(node: Node | ParseError) -> bool:
    """Whether a text was read as one formula without words."""
    return not isinstance(node, ParseError | Phrase | Text | Listing)


def read(text: str, decimal_comma: bool = False) -> Node | ParseError:
    """Parse a text, or return why it cannot be read."""
    try:
        return parse(text, decimal_comma=decimal_comma)
    except ParseError as error:
        return error.with_traceback(None)  # or the cache would keep every frame of the parser


read_gold = lru_cache(maxsize=4096)(read)
"""The same gold is read once for all the answers to its task."""


def explain_gold(gold: str, boxes: GoldBoxes = "row") -> str | None:
    """Say in words why a gold cannot be read, and what to do; None of one that can.

    Args:
        gold: the reference as it stands in the data.
        boxes: see `gold_text`.
    """
    text = gold_text(gold, boxes)
    found = read_gold(text)
    shown = f"{text[:80]!r}" + ("" if text == gold.strip() else f" (in {gold[:80]!r})")
    if isinstance(found, ParseError):
        return f"the gold {shown} cannot be read: {found}; write it as one formula, or give a list of the forms that are right"
    held = scan(gold)
    if held and text == held[-1].content(gold) and (part := beside(gold, held[-1])):
        return f"the gold's box holds only a part of what is stated, {part!r}, and {shown} is taken; give the bare answer"
    if isinstance(found, Phrase) and any(isinstance(part, Text) for part in found.parts):
        return f"the gold {shown} mixes words and formulas, so that only the same words match; give the bare answer"
    return None
