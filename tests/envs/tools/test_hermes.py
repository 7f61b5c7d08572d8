"""Calls are read as Hermes and Qwen models write them, and what is no call is told apart."""

import json

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from verigym.envs.tools.hermes import read_calls

CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
CASES = [
    ("nothing to call", []),
    (CALL, [("add", {"x": 1}, None)]),
    (CALL + "\n" + CALL, [("add", {"x": 1}, None)] * 2),
    ('<tool_call>{"name": "now"}</tool_call>', [("now", {}, None)]),
    ('<tool_call>{"arguments": {"t": "</tool_call>"}, "name": "say"}</tool_call>', [("say", {"t": "</tool_call>"}, None)]),
    ('<tool_call>{"name": "say", "arguments": {"t": "a } { \\" b"}}</tool_call>', [("say", {"t": 'a } { " b'}, None)]),
    (f"<think>perhaps {CALL}</think>No.", []),
    (f"perhaps {CALL}</think>{CALL}", [("add", {"x": 1}, None)]),
    (f"<think>still thinking {CALL}", []),
    ('<tool_call>{"name": "add", "arguments": {"x": 1}}', [("add", {"x": 1}, "unclosed")]),
    ('<tool_call>{"name": "add", "arguments": {"x": 1', [("", {}, "unclosed")]),
    ("<tool_call>add(1)</tool_call>", [("", {}, "json")]),
    ("<tool_call>add(1)", [("", {}, "unclosed")]),
    (f"<tool_call>add(1){CALL}", [("", {}, "unclosed"), ("add", {"x": 1}, None)]),
    ('<tool_call>{"name": "add", "name": "sub", "arguments": {}}</tool_call>', [("", {}, "json")]),
    ('<tool_call>{"name": "add", "arguments": {"x": NaN}}</tool_call>', [("", {}, "json")]),
    ('<tool_call>{"name": "add", "arguments": [1]}</tool_call>', [("", {}, "json")]),
    ('<tool_call>{"name": "add", "arguments": {}, "id": 3}</tool_call>', [("", {}, "json")]),
    ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', [("", {}, "json")]),
    ('<tool_call>[{"name": "add", "arguments": {}}]</tool_call>', [("", {}, "json")]),
    ("<tool_response>1517</tool_response>", []),
    ('<tool_call>{"name": "add", "arguments": {"x": ' + "9" * 5000 + "}}</tool_call>", [("", {}, "json")]),
    ('<tool_call>{"name": "add", "arguments": {"x": ' + "[" * 5000 + "]" * 5000 + "}}</tool_call>", [("", {}, "json")]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=range(len(CASES)))
def test_cases(text: str, expected: list[tuple[str, dict[str, object], str | None]]) -> None:
    assert [(call.name, call.arguments, call.fault) for call in read_calls(text)] == expected


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_whatever_a_string_holds_it_is_read_back(before: str, arguments: dict[str, str]) -> None:
    text = f"</think><tool_call>{json.dumps({'name': 'f', 'arguments': arguments})}</tool_call>"
    assert [(call.name, call.arguments, call.fault) for call in read_calls(text)] == [("f", arguments, None)]


@given(st.lists(st.sampled_from([*'<>{}[]\\":, a1', "<tool_call>", "</tool_call>", "<think>", "</think>", '"name"', '"a'])))
def test_any_text_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    place = 0
    for call in read_calls(text):  # the calls stand in the text, in this order
        place = text.index(call.raw, place) + len(call.raw)


PIECES = [
    "<tool_call>",
    "<tool_call>{",
    '<tool_call>{"',
    '<tool_call>{"a\\',
    "<tool_call> ",
    '{"',
    "{",
    "<tool_call>x",
    "<tool_call>{} ",
    "<tool_call>x</tool_call>",
    '<tool_call>{"name": "f"}</tool_call>',
]


@pytest.mark.parametrize("begin", ["", "<tool_call>{"], ids=["calls", "in a call"])
@pytest.mark.parametrize("piece", PIECES)
def test_a_hostile_text_is_read_in_linear_time(begin: str, piece: str) -> None:
    assert grows_linearly(read_calls, piece, begin)
