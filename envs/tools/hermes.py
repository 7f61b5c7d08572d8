"""Calls of tools in the format of Hermes and Qwen: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Calls inside the model's thinking are ignored. A closing tag inside a string of the arguments is text. If an opening tag is not
followed by a valid call, the result is a call with a fault, so that a session can tell the model. One pass, linear time.
"""

from __future__ import annotations

import re
from typing import Any

from verigym.envs import strict_json
from verigym.envs.contract.schema import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
_STRING_OR_BRACE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"?|[{}]', re.DOTALL)
_SPACE = re.compile(r"\s*+")
_TAG = re.compile("</?tool_call>")


def read_calls(text: str) -> tuple[ToolCall, ...]:
    """Return the calls in `text`, a turn of the model, in order and including malformed ones.

    Unknown tools are not checked for.
    """
    place = after_thinking(text)
    calls: list[ToolCall] = []
    while (start := text.find(OPEN, place)) >= 0:
        call, place = _read_one(text, skip_space(text, start + len(OPEN)))
        calls.append(call)
    return tuple(calls)


def after_thinking(text: str) -> int:
    """Return the offset in `text` at which the thinking ends.

    A closing tag without an opening one counts too, because a chat template may put the opening tag into the prompt.
    """
    end = text.find(THINK_CLOSE)
    if end >= 0:
        return end + len(THINK_CLOSE)
    return len(text) if THINK_OPEN in text else 0


def no_call(text: str, start: int) -> tuple[ToolCall, int]:
    """Return the malformed call between `start` and the next tag, and the offset from which to read on."""
    tag = _TAG.search(text, start)
    if tag is None:
        return ToolCall(raw=text[start:], fault="unclosed"), len(text)
    closed = tag[0] == CLOSE
    return ToolCall(raw=text[start : tag.start()], fault="json" if closed else "unclosed"), tag.end() if closed else tag.start()


def skip_space(text: str, start: int) -> int:
    """Return the place of the next character that is no space."""
    match = _SPACE.match(text, start)
    return match.end() if match is not None else start


def _read_one(text: str, start: int) -> tuple[ToolCall, int]:
    """Return the call that begins at `start`, behind its opening tag, and where to read on."""
    if not text.startswith("{", start):
        return no_call(text, start)
    end = _object_end(text, start)
    if end < 0:
        return ToolCall(raw=text[start:], fault="unclosed"), len(text)
    raw, after = text[start:end], skip_space(text, end)
    fields = _fields(raw)
    if not text.startswith(CLOSE, after):
        return ToolCall(**(fields or {}), raw=raw, fault="unclosed"), end
    return ToolCall(**(fields or {}), raw=raw, fault=None if fields is not None else "json"), after + len(CLOSE)


def _object_end(text: str, start: int) -> int:
    """Return where the object that begins at `start` ends, by its braces outside of strings; -1 if it does not."""
    depth = 0
    for match in _STRING_OR_BRACE.finditer(text, start):
        if match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                return match.end()
    return -1


def _fields(raw: str) -> dict[str, Any] | None:
    """Return name and arguments of a call; None if the text is not an object that holds just these."""
    try:
        value = strict_json.loads(raw)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or set(value) - {"name", "arguments"}:
        return None
    arguments = value.get("arguments", {})
    return {"name": value["name"], "arguments": arguments} if isinstance(arguments, dict) else None
