"""Calls read by a tokenizer's response template, which describes to transformers how a model's turn is laid out.

It serves models that write calls in neither `hermes` nor `qwen_xml` format. The template says where calls begin and end, and
transformers parses each call separately: one that cannot be parsed gets a fault, and the others are run. Each pattern of the
template passes over a turn once. The cost of a pass depends on the pattern, so the time is not always linear.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import JsonValue

from verigym.envs import strict_json
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import ToolCall, canonical_json, sha256_hex
from verigym.envs.contract.session import ToolSpec

FIELD = "tool_calls"
MAX_CALL_CHARS = 16_384
"""Maximum length of a call that is read. It bounds the input of the template's patterns, since their cost has no bound."""
MAX_PATTERN_CHARS = 2_048
"""The same for a template that finds arguments with a pattern: its time may grow with the square of the length."""


class ResponseTemplate:
    """The call format that a response template declares, for `ToolEnvironment(..., calls=ResponseTemplate(...))`.

    Args:
        template: the tokenizer's `response_template`.
        opened: text with which the chat template begins the model's turn, such as `<think>`.
        ended: end token of a turn, such as `<|eot_id|>`, if the template needs it to end a call; `read` gets turns without it.

    Raises:
        UsageError: transformers is missing or too old, or the template declares no calls.
    """

    end = "what closes it"

    def __init__(self, template: Mapping[str, JsonValue], *, opened: str = "", ended: str = "") -> None:
        self._template, self._opened, self._ended = dict(template or {}), opened, ended
        self.identity = f"response_template+{sha256_hex(canonical_json([self._template, opened, ended]))[:8]}"
        if FIELD not in self._fields:
            raise UsageError(f"the response template declares no field {FIELD!r}: it has {sorted(self._fields) or 'no fields'}")
        fields: Any = self._template["fields"]
        self._one_call = {**self._template, "fields": {FIELD: {**fields[FIELD], "optional": True}}}
        self._most = MAX_PATTERN_CHARS if fields[FIELD].get("content") == "xml-inline" else MAX_CALL_CHARS
        self.example = f"calls as your instructions show them, of at most {self._most} characters"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled patterns."""
        return {name: value for name, value in vars(self).items() if name != "_fields"}

    def read(self, text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Return the calls in `text`, a turn of the model, in order and including malformed ones.

        Arguments get their types from the tools' schemas, as in transformers. A call that transformers cannot read, or whose
        arguments are not strict JSON, has the fault `json`.
        """
        whole, calls = self._opened + text + self._ended, []
        first, last = len(self._opened), len(self._opened) + len(text)
        for start, end, closed in self._regions(whole):
            if end > first and start < last:
                raw = whole[max(start, first) : min(end, last)]
                calls += self._read(raw, whole[start:end], tools) if closed else [ToolCall(raw=raw, fault="unclosed")]
        return tuple(calls)

    @cached_property
    def _fields(self) -> Mapping[str, Any]:
        """The compiled fields of the template, by name."""
        try:
            from transformers.utils.chat_parsing import parse_response
            from transformers.utils.chat_parsing.response_templates import load_response_template
        except ImportError:
            parse_response = None
        if parse_response is None or "tools" not in inspect.signature(parse_response).parameters:
            raise UsageError("response templates are read by transformers 5.15 or newer: pip install 'transformers>=5.15'")
        try:
            fields: Mapping[str, Any] = load_response_template(self._template).fields
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"the response template: {error}") from None
        return fields

    def _regions(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Yield where calls begin and end, and whether they are closed, each pattern passing over the text once."""
        fields = self._fields
        opening = [_Once(field.open_re, text, name) for name, field in fields.items() if field.open_re is not None]
        closing = {name: _Once(field.close_re, text, name) for name, field in fields.items() if field.close_re is not None}
        place = 0
        while True:
            found = [(match.start(), -match.end(), one.name) for one in opening if (match := one.at(place)) is not None]
            if not found:
                return
            start, minus_end, name = min(found)
            close = closing[name].at(-minus_end) if name in closing else None
            end = len(text) if close is None else close.end()
            if name == FIELD:
                yield start, end, close is not None
            if end <= place and close is not None:  # a pattern that matches nothing
                end = place + 1
            place = end

    def _read(self, raw: str, region: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
        from transformers.utils.chat_parsing import parse_response

        if len(raw) > self._most:
            return [ToolCall(raw=raw, fault="json")]
        try:
            message = parse_response(region, self._one_call, prefix="", tools=[tool.for_template() for tool in tools])
            values = message.get(FIELD) or [None]
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            values = [None]
        # Of several calls in one text the first has it: a list of hundreds would grow with the square of its length.
        return [
            _call(value, "" if number else raw) for number, value in enumerate(values if isinstance(values, list) else [values])
        ]


class _Once:
    """Searches for a pattern from rising places, so that the text is passed over once."""

    def __init__(self, pattern: Any, text: str, name: str) -> None:
        self.name = name
        self._pattern, self._text = pattern, text
        self._match: Any = pattern.search(text)

    def at(self, place: int) -> Any:
        """Return the first match at or behind a place; None if there is none."""
        if self._match is not None and self._match.start() < place:
            self._match = self._pattern.search(self._text, place)
        return self._match


def _call(value: Any, raw: str) -> ToolCall:
    """Return a call as transformers gives it, if it has a name and arguments that strict JSON can carry."""
    function = value.get("function") if isinstance(value, Mapping) else None
    name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, Mapping) else (None, None)
    if not isinstance(name, str) or not isinstance(arguments, Mapping | str):
        return ToolCall(raw=raw, fault="json")
    try:
        arguments = strict_json.loads(arguments if isinstance(arguments, str) else canonical_json(dict(arguments)))
    except (ValueError, TypeError, RecursionError):
        return ToolCall(name=name, raw=raw, fault="json")
    if not isinstance(arguments, dict):
        return ToolCall(name=name, raw=raw, fault="json")
    return ToolCall(name=name, arguments=arguments, raw=raw)
