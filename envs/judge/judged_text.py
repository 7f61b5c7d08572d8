"""The part of a completion that a judging model reads: the answer after the thinking, or everything."""

from __future__ import annotations

from typing import Literal

from verigym.envs.contract.schema import Completion, Score
from verigym.envs.extraction.methods import strip_thinking

Reads = Literal["answer", "whole"]
Cut = Literal["floor", "judge"]


def read(completion: Completion, reads: Reads, cut: Cut, max_chars: int, floor: float = 0.0) -> str | Score:
    """Return the text to be judged, or the score of the completion if there is no text to judge.

    Args:
        completion: the completion to read.
        reads: `answer`, the text after the thinking (DeepSeek-R1's helpfulness reward), or `whole` (its harmlessness reward).
        cut: what happens to a completion that the token limit has cut off. `floor`: it is not judged and gets `floor`;
            `judge`: it is judged as it is.
        max_chars: length above which a text is not judged, in characters.
        floor: the reward of a completion that is not judged.
    """
    if completion.cut_off and cut == "floor":
        return Score.truncated(reward=floor, reason="cut off by the token limit")
    text = strip_thinking(completion.text) if reads == "answer" else completion.text
    if text is None:
        return Score.no_answer(reward=floor, reason="the thinking never ends, so there is no answer")
    if not any(char.isprintable() and not char.isspace() for char in text):
        return Score.no_answer(reward=floor, reason="nothing was written" if not completion.text else "there is no answer")
    text = text.strip()
    if len(text) > max_chars:
        return Score.limit(reward=floor, reason=f"{len(text)} characters to judge, over {max_chars} (max_chars)")
    # A lone surrogate has no UTF-8 form; in its place stands what every editor would show.
    return text.encode("utf-8", "replace").decode()
