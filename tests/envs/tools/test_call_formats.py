"""An environment with tools is told how its model writes calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cases import cases

import verigym
from verigym import Message, ToolEnvironment, UsageError, run_episode, tool
from verigym.envs.tools.call_formats import FORMATS
from verigym.tools import calculator

MATH = verigym.load("math")
XML = "<tool_call>\n<function=calculator>\n<parameter=expression>\n37 * 41\n</parameter>\n</function>\n</tool_call>"
JSON = '<tool_call>{"name": "calculator", "arguments": {"expression": "37 * 41"}}</tool_call>'


@tool
def repeat(word: str, times: int = 2) -> str:
    """Say a word several times."""
    return word * times


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = list(texts)
    return lambda messages: left.pop(0)


def replies(env: ToolEnvironment, *texts: str) -> list[str]:
    prompt = env.prompt("What is 37 * 41?", answer="1517")
    episode = run_episode(env, prompt, scripted(*texts, r"It is \boxed{1517}."))
    assert env.score(prompt, episode).reward == 1
    return [turn.text for turn in episode.turns if turn.role == "tool"]


def test_the_format_is_an_option() -> None:
    hermes = ToolEnvironment(MATH, tools=[calculator])
    xml = ToolEnvironment(MATH, tools=[calculator], calls="qwen_xml")
    assert replies(hermes, JSON) == replies(xml, XML) == ["1517"]
    assert replies(hermes, XML) == [
        'Error: no call was read between the tags: write <tool_call>{"name": ..., "arguments": {...}}</tool_call>'
    ]
    assert replies(hermes, JSON[:-12]) == ["Error: no call was read, for the closing tag </tool_call> is missing"]
    (malformed,) = replies(xml, JSON)
    assert malformed.startswith("Error: no call was read between the tags: write <tool_call>\n<function=...>\n<parameter=...>")
    assert replies(xml, XML[:-12]) == [
        "Error: no call was read, for a closing tag, </parameter>, </function> or </tool_call>, is missing"
    ]


def test_values_are_typed_by_the_tools_of_the_episode() -> None:
    xml = ToolEnvironment(MATH, tools=[calculator, repeat], calls="qwen_xml")
    text = "<tool_call><function=repeat><parameter=word>\n12\n</parameter><parameter=times>3</parameter></function></tool_call>"
    assert replies(xml, text) == ["121212"]


def test_the_grader_is_another_where_the_format_is_not_the_default() -> None:
    default = ToolEnvironment(MATH, tools=[calculator])
    assert "calls" not in default.options.model_dump(mode="json")
    assert ToolEnvironment(MATH, tools=[calculator], calls="hermes").grader == default.grader
    assert ToolEnvironment(MATH, tools=[calculator], calls=FORMATS["hermes"]).grader == default.grader
    assert ToolEnvironment(MATH, tools=[calculator], calls="qwen_xml").grader != default.grader


@cases("name", ["qwen-xml", "json", 3, None])
def test_an_unknown_format_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="expected 'hermes' or 'qwen_xml', or a format such as ResponseTemplate"):
        ToolEnvironment(MATH, tools=[calculator], calls=name)
