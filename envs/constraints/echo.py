"""Detects responses that only repeat the prompt.

The prompt's own text satisfies some instructions: it contains the keywords that it asks for, and it may begin as
`combination:repeat_prompt` requires. The option `strict_echo` therefore gives an echo the floor.
"""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.constraints.words import runs
from verigym.envs.contract.schema import Prompt

_GAP = "\n"  # stands in no run of letters, so that a find over joined words finds whole words only


def is_echo(prompt: Prompt, text: str, repeated: Sequence[str] = (), *, parts: bool = True) -> bool:
    """Return whether `text` only repeats the prompt's words, so that it does not count as a response. Takes linear time.

    Args:
        prompt: the task.
        text: the response.
        repeated: further texts from the prompt. A response that only repeats them is an echo too. An example is a request that
            the model was told to repeat before it answers.
        parts: whether repeating a part of a message is also an echo, if that part is at least half of the message.
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
