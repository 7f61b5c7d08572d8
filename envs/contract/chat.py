"""Chat messages as other libraries write them: dictionaries with `role` and `content` (a text or a list of text parts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ROLES = ("system", "user", "assistant")
_CALLS = ("tool_calls", "function_call")


def message_fields(message: Mapping[str, Any], place: str) -> dict[str, str]:
    """Return role and content of one message. Fields that are None, as in columns of a data set, count as absent.

    Args:
        message: as a chat API or a data set has it.
        place: its position, for the error.

    Raises:
        TypeError: it is no mapping.
        ValueError: its role is unknown, it calls a tool, or it has no text.
    """
    if not isinstance(message, Mapping):
        raise TypeError(f"{place}: {_shown(message)}; expected a message, {{'role': ..., 'content': ...}}")
    given = {name: value for name, value in message.items() if value is not None}
    role = given.get("role")
    if role not in ROLES:
        what = f"role {role!r}" if role is not None else f"a message without a role (it has {sorted(map(str, given))})"
        raise ValueError(f"{place}: {what}; expected a role of {', '.join(ROLES)}")
    if any(given.get(name) for name in _CALLS):
        raise ValueError(f"{place}: a message with tool calls; only text is judged, so pass the text that is meant")
    return {"role": role, "content": _text(given.get("content"), place)}


def completion_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the assistant's text: the one message after the last `system` or `user` message.

    Raises:
        TypeError: an element is no message.
        ValueError: there is no such message or more than one, or it has no text.
    """
    if not messages:
        raise ValueError("a completion is an empty list of messages; expected [{'role': 'assistant', 'content': ...}]")
    read = [message_fields(message, f"message {place} of the completion") for place, message in enumerate(messages)]
    if read[-1]["role"] != "assistant":
        raise ValueError(f"a completion ends with a message of {read[-1]['role']!r}; expected the assistant's")
    if len(read) > 1 and read[-2]["role"] == "assistant":
        raise ValueError(
            "a completion has several messages of the assistant in a row, and only one text is judged: pass that text, "
            "such as completion[-1]['content']"
        )
    return read[-1]["content"]


def _text(content: Any, place: str) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "".join(_part(part, f"{place}, part {number}") for number, part in enumerate(content))
    if content is None:
        raise ValueError(f"{place}: no content; expected its text")
    raise ValueError(f"{place}: content is {_shown(content)}; expected text or a list of text parts")


def _part(part: Any, place: str) -> str:
    text = part.get("text") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(text, str):
        return text
    kind = f"a part of type {part.get('type')!r}" if isinstance(part, Mapping) else _shown(part)
    raise ValueError(f"{place}: {kind}; expected {{'type': 'text', 'text': ...}}, for environments read text alone")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:60]}{'...' if len(text) > 60 else ''}"
