"""What a model reads in an episode, as one text of the user's, for peers that know texts alone."""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.contract.schema import Message


def as_user_text(messages: Sequence[Message]) -> str:
    """Return `messages` as the text of one user message; tool results are in the tags of Hermes and Qwen."""
    return "\n".join(
        f"<tool_response>\n{one.content}\n</tool_response>" if one.role == "tool" else one.content for one in messages
    )
