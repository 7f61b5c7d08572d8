"""The `paragraphs` environment: rewards readable layout, with no paragraph too long and no more code blocks than allowed.

The idea is from DeepSeek-R1 (arXiv 2501.12948, section 2.3.3): chains of thought with long paragraphs and code blocks are left
out of its supervised training data. The paper does not say how long a paragraph may be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.extraction.fences import blocks
from verigym.envs.shaping.measure import count_words

_BLANK = re.compile(r"\n[^\S\n]*+\n")


class ParagraphsReference(Reference):
    """Nothing: what is readable is in the options."""


class ParagraphsOptions(Options):
    """What is readable."""

    longest: int = Field(300, ge=1)
    """Most words or characters (`unit`) of a paragraph. A paragraph of twice this length halves the reward."""
    unit: Literal["words", "characters"] = "words"
    """Unit in which a paragraph's length is counted. In a script without spaces each character is a word. A word longer than 20
    characters counts as one for each 20 begun, so missing spaces make no paragraph short."""
    code_blocks: int | None = Field(None, ge=0)
    """Most fenced code blocks; with more the reward is 0. None: any number."""


class ParagraphsEnvironment(BaseEnvironment[ParagraphsReference, ParagraphsOptions]):
    """Rewards short paragraphs, from 0 to 1. Code blocks belong to no paragraph."""

    name = "paragraphs"
    version = "2"
    reference_type = ParagraphsReference
    options_type = ParagraphsOptions
    # Any short text is readable.
    expected_verdicts = ExpectedVerdicts(echo="free", garbage="free", hacks="free")

    def examples(self) -> Sequence[Prompt]:
        """Return a sample task. Only the layout of its completion is judged."""
        return (self.prompt("Why is the sky blue?"),)

    def gold(self, prompt: Prompt) -> str:
        """Return one short paragraph."""
        return "A"

    def judge(self, prompt: Prompt, reference: ParagraphsReference, completion: Completion) -> Score:
        """Measure the longest paragraph and count the blocks."""
        text = completion.text
        if not text.strip():
            return Score.no_answer(reason="the completion is empty")
        options = self.options
        paragraphs, code_blocks = divided(text)
        count = count_words if options.unit == "words" else len
        longest = max((count(paragraph.strip()) for paragraph in paragraphs), default=0)
        components: dict[str, float | None] = {"longest": float(longest), "code_blocks": float(code_blocks)}
        reason = f"the longest paragraph has {longest} {options.unit} (at most {options.longest}); {code_blocks} code blocks"
        reward = min(1.0, options.longest / longest) if longest else 1.0
        if options.code_blocks is not None and code_blocks > options.code_blocks:
            reward, reason = 0.0, f"{reason} (at most {options.code_blocks})"
        status = Status.CORRECT if reward == 1 else Status.PARTIAL if reward > 0 else Status.INCORRECT
        return Score(reward=reward, status=status, components=components, reason=reason)


def divided(text: str) -> tuple[list[str], int]:
    """Return the paragraphs of `text`, separated by blank lines and code blocks, and the number of fenced code blocks.

    A block that is never closed counts as a code block, but its text belongs to the paragraphs.
    """
    found, unclosed = blocks(text)
    rest, place, count = [], 0, int(unclosed)
    for block in sorted(found, key=lambda block: block.start):
        if block.start >= place:  # else it is inside the last one
            rest.append(text[place : block.start])
            place, count = block.end, count + 1
    rest.append(text[place:])
    return [paragraph for part in rest for paragraph in _BLANK.split(part) if paragraph.strip()], count
