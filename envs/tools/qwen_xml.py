"""Calls of tools in the XML of Qwen3-Coder and Qwen3.5, with one element per parameter.

    <tool_call>
    <function=lookup>
    <parameter=word>
    ion
    </parameter>
    </function>
    </tool_call>

Values are not escaped, so a rule decides where a value ends: at the first `</parameter>` that is followed, spaces aside, by
`<parameter=`, or by `</function>` and `</tool_call>`. Any other tag within a value is text, even a whole call. The line
breaks after the opening tag and before the closing tag are not part of the value. All values are texts; the tool's JSON schema
gives their types. As in `hermes`, thinking is ignored, an invalid call becomes a call with a fault, and time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from verigym.envs import strict_json
from verigym.envs.contract.schema import ToolCall
from verigym.envs.contract.session import ToolSpec
from verigym.envs.tools.hermes import CLOSE, OPEN, after_thinking, no_call, skip_space

_FUNCTION = re.compile(r"<function=([^<>\n]*+)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]*+)>\n?+")
_VALUE_END = re.compile(r"\n?</parameter>(?=\s*+(?:<parameter=|</function>\s*+</tool_call>))")
_FUNCTION_END = "</function>"
_PYTHON = {"True": True, "False": False, "None": None}
_REFERENCE = "#/$defs/"
_DEEPEST = 8
"""Levels of references and alternatives in a schema that are followed."""


def read_calls(text: str, tools: Sequence[ToolSpec] = ()) -> tuple[ToolCall, ...]:
    """Return the calls in `text`, in order and including malformed ones. Unknown tools are not checked for.

    Args:
        text: the turn of the model.
        tools: tools whose schemas give the types of the parameters. If the schema of a parameter allows strings, its value is
            kept as text, except that the text `null` becomes None if the schema allows null too. Otherwise the value is read as
            strict JSON, or as Python's True, False or None. If the result has a type that the schema does not allow, or if the
            schema names no type, the value stays text.
    """
    place = after_thinking(text)
    schemas = {tool.name: tool.parameters for tool in tools}
    calls: list[ToolCall] = []
    while (start := text.find(OPEN, place)) >= 0:
        call, place = _read_one(text, skip_space(text, start + len(OPEN)), schemas)
        calls.append(call)
    return tuple(calls)


def _read_one(text: str, start: int, schemas: Mapping[str, Mapping[str, JsonValue]]) -> tuple[ToolCall, int]:
    """Return the call that begins at `start`, behind its opening tag, and where to read on."""
    function = _FUNCTION.match(text, start)
    if function is None:
        return no_call(text, start)
    name, place = function[1], skip_space(text, function.end())
    values: dict[str, str] = {}
    twice = False
    while (parameter := _PARAMETER.match(text, place)) is not None:
        end = _VALUE_END.search(text, parameter.end())
        if end is None:
            return ToolCall(name=name, raw=text[start:], fault="unclosed"), len(text)
        twice |= parameter[1] in values
        values[parameter[1]] = text[parameter.end() : end.start()]
        place = skip_space(text, end.end())
    if not text.startswith(_FUNCTION_END, place):
        call, after = no_call(text, place)
        return call.model_copy(update={"name": name, "raw": text[start : place + len(call.raw)]}), after
    end_of_raw = place + len(_FUNCTION_END)
    after = skip_space(text, end_of_raw)
    raw, arguments = text[start:end_of_raw], _typed(values, schemas.get(name, {}))
    if not text.startswith(CLOSE, after):
        return ToolCall(name=name, arguments=arguments, raw=raw, fault="unclosed"), end_of_raw
    return ToolCall(name=name, arguments=arguments, raw=raw, fault="json" if twice else None), after + len(CLOSE)


def _typed(values: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    properties = schema.get("properties") or {}
    return {key: _value(text, set(_types(properties.get(key), schema, _DEEPEST))) for key, text in values.items()}


def _types(schema: Any, whole: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the types that a schema allows."""
    if not isinstance(schema, Mapping) or not depth:
        return
    declared = schema.get("type")
    yield from [declared] if isinstance(declared, str) else declared if isinstance(declared, list) else ()
    if declared is None:
        listed = schema.get("enum") or ([schema["const"]] if "const" in schema else ())
        yield from (kind for value in listed for kind in _KINDS if _is(value, kind))
    for choices in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(choices) or ():
            yield from _types(choice, whole, depth - 1)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        yield from _types((whole.get("$defs") or {}).get(reference[len(_REFERENCE) :]), whole, depth - 1)


_KINDS = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS.get(kind, ()))


def _value(text: str, types: set[str]) -> JsonValue:
    """Return what a text stands for, given the types that the schema allows."""
    bare = text.strip()
    if not types or "string" in types:
        return None if "null" in types and bare == "null" else text
    if bare in _PYTHON:
        value: Any = _PYTHON[bare]
    else:
        try:
            value = strict_json.loads(bare)
        except ValueError:
            return text
    return value if any(_is(value, kind) for kind in types) else text
