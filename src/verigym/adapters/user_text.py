"""Turns the messages that a model reads in an episode into one user message, for trainers that accept only plain text."""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.contract.schema import Message


def as_user_text(messages: Sequence[Message]) -> str:
    """Return `messages` as the text of one user message; tool results are in `<tool_response>` tags, as for Hermes and Qwen."""
    return "\n".join(
        f"<tool_response>\n{one.content}\n</tool_response>" if one.role == "tool" else one.content for one in messages
    )
