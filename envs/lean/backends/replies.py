"""Decides whether a REPL's reply rejects a proof: it does if it has an error or a `sorry`. The messages' wording is ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DETAIL_CHARS = 200


def rejection(reply: Mapping[str, Any]) -> str | None:
    """Return `error: TEXT` for a reply with an error, `axiom:sorryAx` for one with a `sorry`, or None for any other reply.

    Args:
        reply: JSON object with `messages`, each with a severity, and `sorries`, a list. Other fields are ignored.
    """
    messages = reply.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("severity") == "error":
            return f"error: {str(message.get('data', ''))[:_DETAIL_CHARS]}"
    sorries = reply.get("sorries")
    return "axiom:sorryAx" if isinstance(sorries, list) and sorries else None
