"""Chat messages as other libraries write them: dictionaries with `role` and `content` (a text or a list of text parts)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from verigym.envs import strict_json

ROLES = ("system", "user", "assistant")
_CALLS = ("tool_calls", "function_call")


def message_fields(message: Mapping[str, Any], place: str) -> dict[str, str]:
    """Return the role and content of `message`. Fields that are None, as data sets have them, count as absent.

    Args:
        message: a message as a chat API or a data set holds it.
        place: words for the message's position, for the error message.

    Raises:
        TypeError: `message` is not a mapping.
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
        raise ValueError(f"{place}: a message with tool calls; only a completion's last messages may have them")
    return {"role": role, "content": _text(given.get("content"), place)}


def completion_fields(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of a `Completion` made from the messages after the last `system` or `user` message in `messages`.

    If these messages hold no tool calls or tool replies, they must be one text of the assistant. Otherwise they become an
    episode: all turns are kept, and the assistant's last text is judged.

    Raises:
        TypeError: an element of `messages` is not a message.
        ValueError: the assistant wrote no text, or wrote two texts with no tool reply between them.
    """
    if not messages:
        raise ValueError("a completion is an empty list of messages; expected [{'role': 'assistant', 'content': ...}]")
    start = 1 + max((at for at, one in enumerate(messages) if _role(one) in ("system", "user")), default=-1)
    if any(_uses_tools(one) for one in messages[start:]):
        turns = [_turn(one, f"message {start + at} of the completion") for at, one in enumerate(messages[start:])]
        if turns[0]["role"] != "assistant":
            raise ValueError(f"a completion begins with a message of {turns[0]['role']!r}; expected the assistant's")
        text = next(turn["text"] for turn in reversed(turns) if turn["role"] == "assistant")
        return {"text": text, "turns": turns, "finish_reason": "turns" if turns[-1]["role"] == "tool" else None}
    read = [message_fields(message, f"message {place} of the completion") for place, message in enumerate(messages)]
    if read[-1]["role"] != "assistant":
        raise ValueError(f"a completion ends with a message of {read[-1]['role']!r}; expected the assistant's")
    if len(read) > 1 and read[-2]["role"] == "assistant":
        raise ValueError(
            "a completion has several messages of the assistant in a row, and only one text is judged: pass that text, "
            "such as completion[-1]['content']"
        )
    return {"text": read[-1]["content"]}


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None


def _uses_tools(message: Any) -> bool:
    return _role(message) == "tool" or (isinstance(message, Mapping) and any(message.get(name) for name in _CALLS))


def _turn(message: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the fields of a `Turn`. A message that only calls tools has no text, which is an empty one."""
    if _role(message) == "tool":
        name = message.get("name")
        return {"role": "tool", "name": name if isinstance(name, str) else "tool", "text": _text(message.get("content"), place)}
    if not _uses_tools(message):
        return {"role": "assistant", "text": message_fields(message, place)["content"]}
    if _role(message) != "assistant":
        raise ValueError(f"{place}: a message of {_role(message)!r} with tool calls; expected the assistant's")
    listed = message.get("tool_calls") or ()
    if not isinstance(listed, list | tuple):
        raise ValueError(f"{place}: tool_calls is {_shown(listed)}; expected a list of calls")
    calls = [*listed, *filter(None, [message.get("function_call")])]
    text = "" if message.get("content") is None else _text(message["content"], place)
    return {"role": "assistant", "text": text, "calls": [_call(one) for one in calls]}


def _call(call: Any) -> dict[str, Any]:
    """Return the fields of a `ToolCall` from a call of a chat API: `{"function": {"name": ..., "arguments": JSON}}`."""
    function = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    raw = json.dumps(call, ensure_ascii=False, default=str)
    if isinstance(arguments, str):
        try:
            arguments = strict_json.loads(arguments)
        except ValueError:
            arguments = None
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return {"name": name if isinstance(name, str) else "", "raw": raw, "fault": "json"}
    return {"name": name, "arguments": arguments, "raw": raw}


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
