"""Finds the answer in a gold completion, which must score the maximum.

The parts of a composition use it to combine their golds, and conformance checks use it to build reward hacks from a gold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from verigym.envs.extraction.boxes import box_spans

_FENCED = re.compile(r"^(?P<fence>`{3,}|~{3,})[^`\n]*\n(?P<answer>.*?\n)(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_LABEL = re.compile(r"(?:####|(?:final )?answer(?: is)?:?|A:)[ \t]*(\S[^\n]*)", re.IGNORECASE)


class GoldText(NamedTuple):
    """A gold completion, split at its answer: `before + answer + after` is the completion."""

    before: str
    answer: str
    after: str
    lines: bool = False
    """Whether the answer is whole lines, as in a fenced block."""

    @property
    def marked(self) -> bool:
        """Return whether a box, tag, label or fence marks the answer. If not, the whole text is the answer."""
        return bool(self.before or self.after)

    def holding(self, answer: str) -> str:
        """Return the completion with another answer in its place."""
        line_end = "\n" if self.lines and not answer.endswith("\n") else ""
        return f"{self.before}{answer}{line_end}{self.after}"


def cut(gold: str) -> GoldText:
    r"""Return `gold` split at its answer.

    The answer is the first of these that exists: the content of the last fenced block, of the last balanced `\boxed{}` or of
    the last `<answer>` tag, the text after the last label such as `Answer:`, the whole text.
    """
    blocks = [*_FENCED.finditer(gold)]
    if blocks:
        answer = slice(*blocks[-1].span("answer"))
        return GoldText(gold[: answer.start], gold[answer], gold[answer.stop :], lines=True)
    boxes = box_spans(gold)
    if boxes:
        _, start, end = boxes[-1]
        return GoldText(gold[:start], gold[start:end], gold[end:])
    marks = [*_TAG.finditer(gold)][-1:] or [*_LABEL.finditer(gold)][-1:]
    if marks:
        start, end = marks[0].span(1)
        return GoldText(gold[:start], gold[start:end], gold[end:])
    return GoldText("", gold, "")


def gold_candidates(golds: Sequence[str]) -> Iterator[str]:
    """Yield completions that may satisfy all parts of a composition.

    First comes each gold alone. Then comes each gold but the first, with its answer replaced by the answer of the first gold.
    Last come texts that join the first gold and another one.

    Args:
        golds: the golds of the parts, the primary part's first.
    """
    if not golds:
        return
    primary = golds[0]
    answer = cut(primary)
    seen: set[str] = set()
    for candidate in (
        *golds,
        *(cut(other).holding(answer.answer) for other in golds[1:]),
        *(f"{other}\n{primary}" for other in golds[1:]),
        *(f"{primary}\n{other}" for other in golds[1:]),
    ):
        if candidate not in seen:
            seen.add(candidate)
            yield candidate
