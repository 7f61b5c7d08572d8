"""Calls are read by a tokenizer's response template, each on its own, and whatever the text, nothing is raised."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest
from cases import cases
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st
from needs import lack

import verigym
from verigym import ToolEnvironment, UsageError, run_episode, tool
from verigym.envs.tools.call_formats import call_format
from verigym.envs.tools.response_template import MAX_CALL_CHARS, MAX_PATTERN_CHARS, ResponseTemplate
from verigym.tools import calculator

MATH = verigym.load("math")


@tool
def repeat(word: str, times: int = 2) -> str:
    """Say a word several times."""
    return word * times


PIPES: dict[str, Any] = {
    "start_anchor": "<|assistant|>",
    "fields": {
        "thinking": {"open": "<hm>", "close": "</hm>"},
        "tool_calls": {
            "open_pattern": r"<call:(?P<name>\w+)>",
            "close": "</call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {},
    },
}
ELEMENTS: dict[str, Any] = json.loads(json.dumps(PIPES))
ELEMENTS["fields"]["tool_calls"] |= {
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</\w+>", "value_parser": {"name": "text"}},
}
TOOLS = [repeat.spec]


@pytest.fixture(autouse=True, scope="module")
def _reader_is_there() -> None:
    try:
        ResponseTemplate(PIPES)
    except UsageError as error:
        lack("response templates", error)


def read(template: dict[str, Any], text: str, **options: str) -> list[tuple[str, Any, str | None]]:
    return [(one.name, one.arguments, one.fault) for one in ResponseTemplate(template, **options).read(text, TOOLS)]


RESPONSES = [
    (PIPES, "nothing", []),
    (PIPES, 'So <call:repeat>{"word": "a"}</call>', [("repeat", {"word": "a"}, None)]),
    (PIPES, "<call:repeat>{}</call><call:now>{}</call>", [("repeat", {}, None), ("now", {}, None)]),
    (PIPES, "<hm><call:repeat>{}</call></hm>", []),
    (PIPES, "<hm><call:repeat>{}</call>", []),
    (PIPES, "<call:repeat>{}</call><call:repeat>{", [("repeat", {}, None), ("", {}, "unclosed")]),
    (PIPES, "<call:repeat>oh</call><call:repeat>{}</call>", [("", {}, "json"), ("repeat", {}, None)]),
    (PIPES, '<call:repeat>{"word": NaN}</call>', [("repeat", {}, "json")]),
    (PIPES, "<call:repeat>[1]</call>", [("", {}, "json")]),
    (PIPES, '<call:repeat>{"times": "3"}</call>', [("repeat", {"times": 3}, None)]),
    (PIPES, "<call:repeat>" + "[" * 5000 + "]" * 5000 + "</call>", [("", {}, "json")]),
    (PIPES, '<call:repeat>{"word": "' + "a" * MAX_CALL_CHARS + '"}</call>', [("", {}, "json")]),
    (ELEMENTS, "<call:repeat><word>7</word><times>7</times></call>", [("repeat", {"word": "7", "times": 7}, None)]),
    (ELEMENTS, "<call:repeat><word>" + "a" * MAX_PATTERN_CHARS + "</word></call>", [("", {}, "json")]),
]


@cases(("template", "text", "expected"), RESPONSES)
def test_calls_are_read_by_a_response_template(template: dict[str, Any], text: str, expected: list[Any]) -> None:
    assert read(template, text) == expected


def test_what_the_chat_template_opens_and_the_end_token_closes() -> None:
    assert read(PIPES, "<call:repeat>{}</call></hm><call:now>{}</call>", opened="<hm>") == [("now", {}, None)]
    assert read(PIPES, "{}</call>", opened="<call:repeat>") == [("repeat", {}, None)]
    assert read(PIPES, "No more.", opened="<call:repeat>{}</call>") == []
    ended = json.loads(json.dumps(PIPES))
    ended["fields"]["tool_calls"]["close"] = "<|end|>"
    assert read(ended, "<call:repeat>{}") == [("", {}, "unclosed")]
    (one,) = ResponseTemplate(ended, ended="<|end|>").read("<call:repeat>{}", TOOLS)
    assert (one.name, one.raw, one.fault) == ("repeat", "<call:repeat>{}", None)


def test_a_response_template_is_a_format() -> None:
    reader = ResponseTemplate(PIPES)
    assert call_format(reader) is reader
    env = ToolEnvironment(MATH, tools=[calculator], calls=reader)
    assert env.grader != ToolEnvironment(MATH, tools=[calculator]).grader
    assert env.grader != ToolEnvironment(MATH, tools=[calculator], calls=ResponseTemplate(PIPES, opened="<hm>")).grader
    text = '<call:calculator>{"expression": "37 * 41"}</call>'
    left = [text, "<call:calculator>1</call>", r"It is \boxed{1517}."]
    episode = run_episode(env, env.prompt("What is 37 * 41?", answer="1517"), lambda messages: left.pop(0))
    assert [turn.text for turn in episode.turns if turn.role == "tool"] == [
        "1517",
        "Error: no call was read between the tags: write calls as your instructions show them, of at most 16384 characters",
    ]
    again = copy.deepcopy(reader)  # by the state that pickle takes, too
    assert again.read(text, [calculator.spec]) == reader.read(text, [calculator.spec])


@given(st.lists(st.sampled_from(["<call:a>", "</call>", "<hm>", "</hm>", "{", "}", '{"a": 1}', "<a>", "</a>", "[", "1", " "])))
def test_any_text_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    for template in (PIPES, ELEMENTS):
        place = 0
        for one in ResponseTemplate(template).read(text, TOOLS):
            place = text.index(one.raw, place) + len(one.raw)


PASSES = [("<call:a>{}</call>", 2_000), ("<call:a>", 20_000), ("</call>", 20_000), ("<hm>", 20_000), ("<hm></hm>", 20_000)]


@cases(("piece", "short"), PASSES)
def test_a_text_is_passed_over_once(piece: str, short: int) -> None:
    reader = ResponseTemplate(PIPES)
    assert grows_linearly(lambda text: reader.read(text, TOOLS), piece, short=short)


BAD_TEMPLATES: list[tuple[Any, str]] = [
    ({}, "the response template"),
    (None, "the response template"),
    ({"start_anchor": "a", "fields": {"content": {}}}, r"declares no field 'tool_calls': it has \['content'\]"),
    ({"start_anchor": "a", "fields": {"tool_calls": {"open_pattern": "("}}}, "the response template: .*regex"),
]


@cases(("template", "message"), BAD_TEMPLATES)
def test_response_templates_that_are_refused(template: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ResponseTemplate(template)


def test_response_templates_need_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.utils.chat_parsing", None)
    with pytest.raises(UsageError, match="transformers 5.15 or newer: pip install"):
        ResponseTemplate(PIPES)


def test_the_text_of_a_list_of_calls_is_kept_once() -> None:
    lists = {
        "start_anchor": "<|assistant|>",
        "fields": {"tool_calls": {"open": "[CALLS]", "close": "[/CALLS]", "content": "json"}, "content": {}},
    }
    text = f"[CALLS]{json.dumps([{'function': {'name': 'repeat', 'arguments': {'word': 'a'}}}] * 200)}[/CALLS]"
    calls = ResponseTemplate(lists).read(text, TOOLS)
    assert [(call.name, call.fault) for call in calls] == [("repeat", None)] * 200
    assert "".join(call.raw for call in calls) == text
