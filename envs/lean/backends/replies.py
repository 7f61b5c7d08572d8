"""Reads a rejection from a REPL's reply, by message severities and placeholders. The wording of messages does not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DETAIL_CHARS = 200


def rejection(reply: Mapping[str, Any]) -> str | None:
    """Return `error: TEXT` or `axiom:sorryAx` for a reply with an error or a placeholder, or None for any other reply.

    Args:
        reply: JSON object with `messages`, each with a severity, and `sorries`. Other fields are ignored.
    """
    messages = reply.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("severity") == "error":
            return f"error: {str(message.get('data', ''))[:_DETAIL_CHARS]}"
    sorries = reply.get("sorries")
    return "axiom:sorryAx" if isinstance(sorries, list) and sorries else None
