"""Calls are read as Qwen3-Coder and Qwen3.5 write them, with values of the types that the tool's schema names."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from cases import cases
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from verigym import tool
from verigym.envs.tools.qwen_xml import read_calls

CALL = "<tool_call>\n<function=add>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"


def call(name: str, **values: str) -> str:
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


CASES: list[tuple[str, list[tuple[str, dict[str, Any], str | None]]]] = [
    ("nothing to call", []),
    (CALL, [("add", {"x": "1"}, None)]),
    (CALL + "\n" + CALL, [("add", {"x": "1"}, None)] * 2),
    ("I add.\n\n" + CALL + "<|im_end|>", [("add", {"x": "1"}, None)]),
    ("<tool_call><function=now></function></tool_call>", [("now", {}, None)]),
    (
        "<tool_call><function=f><parameter=a>1</parameter><parameter=b>2</parameter></function></tool_call>",
        [("f", {"a": "1", "b": "2"}, None)],
    ),
    (call("f", a="one\n two\n", b=""), [("f", {"a": "one\n two\n", "b": ""}, None)]),
    (call("f", a="x</parameter> y"), [("f", {"a": "x</parameter> y"}, None)]),
    (call("f", a="x</function>y</tool_call>z"), [("f", {"a": "x</function>y</tool_call>z"}, None)]),
    (call("f", a="<parameter=b>\n1"), [("f", {"a": "<parameter=b>\n1"}, None)]),
    (call("f", a="x</parameter></function>y"), [("f", {"a": "x</parameter></function>y"}, None)]),
    (call("f", a="x</parameter>\n</function>\n</tool_call>"), [("f", {"a": "x"}, None)]),
    (f"<think>perhaps {CALL}</think>No.", []),
    (f"perhaps {CALL}</think>{CALL}", [("add", {"x": "1"}, None)]),
    (f"<think>still thinking {CALL}", []),
    ("<tool_call>\n<function=add>\n<parameter=x>\n1\n</parameter>\n</function>", [("add", {}, "unclosed")]),
    ("<tool_call>\n<function=add>\n<parameter=x>\n1\n</parameter>", [("add", {}, "unclosed")]),
    ("<tool_call>\n<function=add>\n<parameter=x>\n1", [("add", {}, "unclosed")]),
    ("<tool_call>\n<function=add>", [("add", {}, "unclosed")]),
    ("<tool_call>\n<function=add", [("", {}, "unclosed")]),
    ("<tool_call>add(1)</tool_call>", [("", {}, "json")]),
    ('<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>', [("", {}, "json")]),
    ("<tool_call><function=f>text</function></tool_call>" + CALL, [("f", {}, "json"), ("add", {"x": "1"}, None)]),
    ("<tool_call><function=f>" + CALL, [("f", {}, "unclosed"), ("add", {"x": "1"}, None)]),
    ("<tool_call><function=f></function>" + CALL, [("f", {}, "unclosed"), ("add", {"x": "1"}, None)]),
    (
        "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>",
        [("f", {"a": "2"}, "json")],
    ),
    ("<function=f></function>", []),
]


@cases(("text", "expected"), CASES)
def test_cases(text: str, expected: list[tuple[str, dict[str, Any], str | None]]) -> None:
    assert [(one.name, one.arguments, one.fault) for one in read_calls(text)] == expected


class Unit(Enum):
    METRE = "m"
    FOOT = "ft"


class Place(BaseModel):
    x: int
    y: int


@tool
def typed(
    text: str,
    whole: int,
    number: float,
    yes: bool,
    many: list[int],
    place: Place,
    unit: Unit,
    level: Literal[1, 2],
    maybe_text: str | None = None,
    maybe_whole: int | None = None,
    either: int | str = 0,
    anything: Any = None,
    table: dict[str, int] | None = None,
) -> str:
    """Take values of every type."""
    return ""


TYPED = [
    ("text", "12", "12"),
    ("text", "null", "null"),
    ("text", "true", "true"),
    ("whole", "12", 12),
    ("whole", " 12 ", 12),
    ("whole", "-3", -3),
    ("whole", "1.5", "1.5"),
    ("whole", "twelve", "twelve"),
    ("whole", "true", "true"),
    ("whole", "9" * 5000, "9" * 5000),
    ("number", "1.5", 1.5),
    ("number", "2", 2),
    ("number", "NaN", "NaN"),
    ("number", "1e999", "1e999"),
    ("yes", "true", True),
    ("yes", "True", True),
    ("yes", "False", False),
    ("yes", "1", "1"),
    ("many", "[1, 2]", [1, 2]),
    ("many", "[" * 500 + "]" * 500, "[" * 500 + "]" * 500),
    ("many", "1, 2", "1, 2"),
    ("place", '{"x": 1, "y": 2}', {"x": 1, "y": 2}),
    ("place", '{"x": 1, "x": 2}', '{"x": 1, "x": 2}'),
    ("unit", "m", "m"),
    ("level", "2", 2),
    ("maybe_text", "null", None),
    ("maybe_text", "12", "12"),
    ("maybe_whole", "12", 12),
    ("maybe_whole", "None", None),
    ("either", "12", "12"),
    ("anything", "[1]", "[1]"),
    ("table", '{"a": 1}', {"a": 1}),
    ("unknown", "1", "1"),
]


@cases(("name", "value", "expected"), TYPED)
def test_values_have_the_types_of_the_schema(name: str, value: str, expected: Any) -> None:
    (one,) = read_calls(call("typed", **{name: value}), [typed.spec])
    assert one.arguments == {name: expected}
    assert type(one.arguments[name]) is type(expected)


def test_values_fit_the_tool_or_say_why_not() -> None:
    good = call("typed", text="1", whole="1", number="1", yes="True", many="[]", place='{"x": 1, "y": 2}', unit="ft", level="1")
    (one,) = read_calls(good, [typed.spec])
    assert typed.misfit(one.arguments) == ""
    (bad,) = read_calls(good.replace("<parameter=whole>\n1", "<parameter=whole>\none"), [typed.spec])
    assert "whole" in typed.misfit(bad.arguments)


VALUES = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "</parameter>" not in text)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,5}", fullmatch=True), VALUES))
def test_whatever_a_value_holds_it_is_read_back(values: dict[str, str]) -> None:
    (one,) = read_calls(call("f", **values))
    assert (one.name, one.arguments, one.fault) == ("f", values, None)


TAGS = [
    "<tool_call>",
    "</tool_call>",
    "<function=f>",
    "<function=",
    "</function>",
    "<parameter=a>",
    "<parameter=",
    "</parameter>",
]


@given(st.lists(st.sampled_from([*TAGS, "<think>", "</think>", *"<>=a1 \n"])))
def test_any_text_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    place = 0
    for one in read_calls(text, [typed.spec]):  # the calls stand in the text, in this order
        place = text.index(one.raw, place) + len(one.raw)


OPEN = "<tool_call><function=f><parameter=x>"
PIECES = [
    "<tool_call>",
    "<tool_call>x",
    "<tool_call><function=f>",
    OPEN,
    "<tool_call><function=f></function>",
    f"{OPEN}</parameter></function></tool_call>",
    "</parameter>",
    "</parameter>   ",
    "\n</parameter>\n",
    "</parameter></function> ",
    " ",
    "\n",
    "<parameter=x>1</parameter>",
    "<function=a",
    "a",
]


@pytest.mark.parametrize("begin", ["", OPEN, "<tool_call><function=", "<tool_call><function=f><parameter="])
@pytest.mark.parametrize("piece", PIECES)
def test_a_hostile_text_is_read_in_linear_time(begin: str, piece: str) -> None:
    assert grows_linearly(read_calls, piece, begin)
