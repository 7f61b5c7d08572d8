r"""Reads golds in the formats of data sets: plain, in `$...$` or `\boxed{...}`, after `####`, or at the end of a solution."""

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
"""A longer gold with a box is a solution."""
_UNCLOSED = re.compile(r"^\W{0,4}\\(?:boxed|fbox)\s*\{")


def gold_text(gold: str, boxes: GoldBoxes = "row") -> str:
    """Return the part of `gold` that is the answer: the content of its boxes, or the text after `####` or "final answer is".

    If it has neither, all of `gold` is returned.

    Args:
        gold: the gold as written in the data.
        boxes: which of several boxes count. `row`: the last box, with the boxes before it that are joined to it by a comma,
            `and`, `or` or nothing; `last`: only the last; `all`: all boxes.
    """
    scanned = scan(gold)
    if scanned:
        if len(scanned) == 1 and len(gold) <= MAX_FORMULA_CHARS and beside(gold, scanned[0]) and is_formula(read_gold(gold)):
            return gold.strip()  # -\boxed{5}
        joined = box_row(gold, scanned) if boxes == "row" else None
        if joined:
            return joined.text
        chosen = scanned if boxes == "all" else scanned[-1:]
        percent = r"\%" if _PERCENT.match(gold[scanned[-1].after :]) else ""
        return ", ".join(box.content(gold) + percent for box in chosen)
    if "####" in gold:
        return after_hash(gold) or gold.strip()
    announced = after_final(gold) if len(gold) > 40 else None
    if announced:
        return announced
    text = _UNCLOSED.sub("", gold.strip())
    return _SAYS.sub("", text)


def is_formula(node: Node | ParseError) -> bool:
    """Return whether `node` was parsed as one formula without words."""
    return not isinstance(node, ParseError | Phrase | Text | Listing)


def read(text: str, decimal_comma: bool = False) -> Node | ParseError:
    """Parse `text` and return its tree, or the error if it cannot be parsed.

    Args:
        text: the text of a gold or an answer.
        decimal_comma: as for `parse`.
    """
    try:
        return parse(text, decimal_comma=decimal_comma)
    except ParseError as error:
        return error.with_traceback(None)  # otherwise the cache keeps the frames of the parser


read_gold = lru_cache(maxsize=4096)(read)
"""`read` with a cache, since a gold is compared with many answers."""


def explain_gold(gold: str, boxes: GoldBoxes = "row") -> str | None:
    """Return a message that says why `gold` cannot be read and what to do; None if it can be read.

    Args:
        gold: the gold as written in the data.
        boxes: see `gold_text`.
    """
    text = gold_text(gold, boxes)
    parsed = read_gold(text)
    shown = f"{text[:80]!r}" + ("" if text == gold.strip() else f" (in {gold[:80]!r})")
    if isinstance(parsed, ParseError):
        return f"the gold {shown} cannot be read: {parsed}; write it as one formula, or give a list of the forms that are right"
    held = scan(gold)
    if held and text == held[-1].content(gold) and (part := beside(gold, held[-1])):
        return f"the gold's box holds only a part of what is stated, {part!r}, and {shown} is taken; give the bare answer"
    if isinstance(parsed, Phrase) and any(isinstance(part, Text) for part in parsed.parts):
        return f"the gold {shown} mixes words and formulas, so that only the same words match; give the bare answer"
    return None
