"""Detects responses that only repeat the prompt.

Some instructions hold for the prompt's own text: a prompt that quotes its keywords holds them, and `combination:repeat_prompt`
asks for a beginning that the prompt has. `strict_echo` therefore refuses an echo.
"""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.constraints.words import runs
from verigym.envs.contract.schema import Prompt

_GAP = "\n"  # stands in no run of letters, so that a find over joined words finds whole words only


def is_echo(prompt: Prompt, text: str, repeated: Sequence[str] = (), *, parts: bool = True) -> bool:
    """Return whether `text` only repeats words of the prompt, and so is no response. Takes linear time.

    Args:
        prompt: the task.
        text: the response.
        repeated: texts inside the prompt whose repetition is an echo too, such as a request that the model was told to repeat.
        parts: whether repeating part of a message is an echo too, if `text` is at least half as long as that message.
    """
    left = said = _joined(text)
    messages = [_joined(message.content) for message in prompt.messages]
    wholes = {_joined(prompt.text), *messages, *map(_joined, repeated)} - {""}
    for words in sorted(wholes, key=len, reverse=True):
        left = left.replace(words, "")
    if not left:
        return bool(said)
    left = left.rstrip(_GAP)  # the last word may have been cut off
    return parts and any(2 * len(left) >= len(words) and left in words for words in messages)


def _joined(text: str) -> str:
    return "".join(_GAP + word + _GAP for word in runs(text.casefold()))
