"""Finds what a prompt has already written of the completion: an opening thinking tag, or an opening fence, at its end."""

from __future__ import annotations

import re

from verigym.envs.extraction.fences import blocks
from verigym.envs.extraction.methods import THINKING

_LAST_LINE_FENCE = re.compile(r"(?:\A|(?<=\n))[ \t]*(?:`{3,}|~{3,})[^\n`]*\n?\Z")
_SEEN = 200
"""Characters at the end of a prompt in which a tag is looked for."""


def opened(prompt: str) -> str:
    r"""Return the end of `prompt` that belongs to the completion, such as `<think>\n`; empty if there is none.

    Some chat templates begin the model's turn with a tag, so the completion has only the closing tag. Only white space may
    follow the tag or fence. A fence that closes a block of the prompt opens nothing.

    Args:
        prompt: the whole text that the model reads before the completion.
    """
    tail = prompt[-_SEEN:]
    tag = next(reversed(list(THINKING.finditer(tail))), None)
    if tag is not None and not any(tag.groups()) and tail[tag.end() :].removeprefix("<|message|>").strip() == "":
        return tail[tag.start() :]
    fence = _LAST_LINE_FENCE.search(prompt)
    return prompt[fence.start() :] if fence is not None and blocks(prompt)[1] else ""
