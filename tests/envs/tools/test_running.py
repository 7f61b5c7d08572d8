"""Who is to blame where a tool fails, and how long the calls of a turn may take."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import cases

import verigym
from verigym import Completion, EnvironmentFailure, Message, ToolEnvironment, UsageError, run_episode
from verigym.tools import OpenTool, tool

ANSWER = r"It is \boxed{3}."
down = False
"""Whether what the tool needs is out of order."""
taken: list[str] = []
"""Places that were there once."""
blips: list[Exception] = []
"""What the next calls raise, whatever their arguments."""


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = list(texts)
    return lambda messages: left.pop(0)


@tool
def fetch(place: str) -> str:
    "Get what is at a place."
    if down or blips:
        raise blips.pop() if blips else ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
    if place == "home":
        return "welcome"
    if place == "once" and place not in taken:
        taken.append(place)
        return "taken"
    if place == "slow":
        raise EnvironmentFailure("timeout", "no result within 10 s", retryable=True)
    if place == "package":
        raise ModuleNotFoundError("No module named 'a'")
    return Path("/nowhere", place).read_text()


@tool
def nap() -> str:
    "Sleep."
    time.sleep(0.2)
    return "slept"


class Notes:
    """A tool with a state: `keep` returns what was kept before, `drop` fails once something is kept, `break` always."""

    def __init__(self) -> None:
        self.inner = tool(notes)
        self.spec, self.identity = self.inner.spec, "1"
        self.open_now = 0

    def misfit(self, arguments: Mapping[str, Any]) -> str:
        return self.inner.misfit(arguments)

    def open(self, seed: str) -> OpenTool:
        return OpenNotes(self)


def notes(do: str) -> str:
    "Keep notes."
    raise AssertionError


class OpenNotes:
    def __init__(self, tool: Notes) -> None:
        self.tool, self.kept = tool, 0
        tool.open_now += 1

    def call(self, arguments: Mapping[str, Any]) -> str:
        if down or arguments["do"] == "break" or (arguments["do"] == "drop" and self.kept):
            raise EnvironmentFailure("crashed", "the server ended")
        self.kept += 1
        return str(self.kept)

    def close(self) -> None:
        self.tool.open_now -= 1


@pytest.fixture(autouse=True)
def in_order() -> None:
    global down
    down = False
    blips.clear()
    taken.clear()


def made() -> tuple[ToolEnvironment, Notes]:
    kept = Notes()
    return ToolEnvironment(verigym.load("math"), tools=[fetch, nap, kept]), kept


def play(env: ToolEnvironment, *texts: str) -> Completion:
    prompt = env.prompt("What is 1 + 2?", answer="3")
    return run_episode(env, prompt, scripted(*texts), max_turns=len(texts))


def said(episode: Completion) -> list[str]:
    return [turn.text for turn in episode.turns if turn.role == "tool"]


@cases(
    ("place", "words", "bugs"),
    [
        ("gone", "Error: FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/gone'", 1),
        ("a" * 5000, "Error: OSError: [Errno 36] File name too long", 1),
        ("slow", "Error: no result, for it took too long", 0),
        ("package", "Error: ModuleNotFoundError: No module named 'a'", 1),
    ],
)
def test_a_call_is_to_blame_where_the_tool_answers_another(place: str, words: str, bugs: int) -> None:
    env, _ = made()
    unknown = play(env, call("fetch", place=place), ANSWER)
    assert unknown.failure is not None and env.score(env.prompt("What is 1 + 2?", answer="3"), unknown).reward is None
    play(env, call("fetch", place="home"), ANSWER)
    episode = play(env, call("fetch", place=place) + call("fetch", place="home"), ANSWER)
    assert said(episode)[0].startswith(words) and said(episode)[1] == "welcome"
    assert episode.outcome is not None and episode.outcome["faults"] == {"failed": 1}
    found: Any = episode.outcome.get("tool_exceptions", [])
    assert len(found) == bugs


def test_we_are_to_blame_where_the_tool_answers_nothing() -> None:
    global down
    env, kept = made()
    play(env, call("fetch", place="home") + call("notes", do="keep"), ANSWER)
    down = True
    for name, arguments in (("fetch", {"place": "home"}), ("fetch", {"place": "gone"}), ("notes", {"do": "break"})):
        episode = play(env, call(name, **arguments), ANSWER)
        assert episode.failure is not None and episode.finish_reason == "abort"
    assert kept.open_now == 0


def test_a_call_that_works_once_is_not_the_only_control() -> None:
    env, _ = made()
    play(env, call("fetch", place="home"), ANSWER)
    episode = play(env, call("fetch", place="once") + call("fetch", place="gone"), ANSWER)
    assert said(episode)[0] == "taken" and said(episode)[1].startswith("Error: FileNotFoundError")


def test_what_passes_is_nobodys_fault() -> None:
    env, _ = made()
    play(env, call("fetch", place="home"), ANSWER)
    blips.append(TimeoutError("once"))
    episode = play(env, call("fetch", place="home"), ANSWER)
    assert said(episode) == ["welcome"] and episode.outcome == {"calls": {"fetch": 1}, "faults": {}}


def test_a_tool_with_a_state_starts_anew_and_learns_nothing_of_the_control() -> None:
    env, kept = made()
    play(env, call("notes", do="keep"), ANSWER)
    episode = play(env, call("notes", do="keep") + call("notes", do="break") + call("notes", do="keep"), ANSWER)
    assert said(episode) == ["1", "Error: no result, for the tool ended; the tool starts anew, and what it held is lost", "1"]
    assert kept.open_now == 0


def test_a_state_that_is_lost_by_what_does_not_happen_again_ends_the_episode() -> None:
    env, _ = made()
    episode = play(env, call("notes", do="keep") + call("notes", do="drop"), ANSWER)
    assert episode.failure is not None and episode.failure.message == "the server ended"


def test_after_a_failure_a_session_answers_nothing() -> None:
    env, _ = made()
    session = env.open(env.prompt("What is 1 + 2?", answer="3"), "0")
    for text in (call("notes", do="break"), call("notes", do="keep"), call("nap")):
        with pytest.raises(EnvironmentFailure, match="the server ended"):
            session.respond(session.read(text))
    session.close()


def test_slow_calls_of_a_turn_are_bounded() -> None:
    env = ToolEnvironment(verigym.load("math"), tools=[nap], max_turn_s=0.1)
    episode = play(env, call("nap") * 6, call("nap"), ANSWER)
    late = "Error: not run, for the calls before it took more than 0.1 s"
    assert said(episode) == ["slept", late, late, late, late, late, "slept"]
    assert episode.outcome is not None and episode.outcome["faults"] == {"too_late": 5}


def test_the_grader_is_the_same_unless_a_turn_may_take_another_time() -> None:
    usual = ToolEnvironment(verigym.load("math"), tools=[nap])
    assert ToolEnvironment(verigym.load("math"), tools=[nap], max_turn_s=15).grader == usual.grader
    assert ToolEnvironment(verigym.load("math"), tools=[nap], max_turn_s=14).grader != usual.grader
    with pytest.raises(UsageError, match="max_turn_s"):
        ToolEnvironment(verigym.load("math"), tools=[nap], max_turn_s=0)


def test_a_thousand_calls_are_answered_once() -> None:
    env, _ = made()
    for text in ("<tool_call>" * 1000, "<tool_call>{}</tool_call>" * 1000, call("none") * 1000):
        episode = play(env, text, ANSWER)
        assert len(said(episode)) == 9
        assert said(episode)[-1] == "Error: the last 992 calls were not run, for one turn may make 8"
