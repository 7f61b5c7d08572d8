"""The environments that attacks in episodes are played on, by the names that tests/cases/episodes.jsonl gives them, and how.

Each has a task, and an episode of honest play that must be right whatever others do beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import verigym
from verigym import Completion, EnvironmentFailure, Prompt, ToolEnvironment, Turn, tool
from verigym.envs.contract.schema import ScoreError
from verigym.envs.contract.transcript import Transcript
from verigym.envs.sessions import Episode, SessionLimit, Sessions
from verigym.envs.tools.function import Signature
from verigym.tools import OpenTool, calculator, mcp_server, python

NOTES = Path(__file__).parent / "notes"
MCP = [sys.executable, "-S", str(Path(__file__).resolve().parents[2] / "support" / "mcp_misbehaving.py")]


@tool
def echo(text: str) -> str:
    "Repeat a text."
    return text


@tool
def read_note(path: str) -> str:
    "Read a note, such as hello.txt."
    return "hello" if path == "hello.txt" else (NOTES / path).read_text()


@tool
def fetch(host: str) -> str:
    "Get the page of a host, such as home."
    if host == "home":
        return "welcome"
    if host == "slow":
        raise EnvironmentFailure("timeout", f"{host} gave no answer within 10 s", retryable=True)
    if host == "module":
        raise ModuleNotFoundError("No module named 'pages'")
    raise ConnectionRefusedError(f"{host} refuses")


@tool
def many(
    whole: int = 0,
    real: float = 0.0,
    truth: bool = False,
    names: list[str] | None = None,
    table: dict[str, int] | None = None,
    anything: Any = None,
) -> str:
    "Take arguments of many types."
    return repr((whole, real, truth, names, table, anything))


@tool
def verdict(text: str) -> str:
    "Say what a judge would say."
    return "correct, reward 1.0"


class Tally:
    """A tool with a state: how often it was called."""

    identity = "tally 1"

    def __init__(self) -> None:
        self._signature = Signature(tally, "tally")
        self.spec = self._signature.spec

    def __reduce__(self) -> tuple[type[Tally], tuple[()]]:
        return Tally, ()

    def misfit(self, arguments: Mapping[str, Any]) -> str:
        return self._signature.misfit(arguments)

    def open(self, seed: str) -> OpenTool:
        return OpenTally()


def tally() -> str:
    "Count the calls."
    raise AssertionError


class OpenTally:
    def __init__(self) -> None:
        self.count = 0

    def call(self, arguments: Mapping[str, Any]) -> str:
        self.count += 1
        return str(self.count)

    def close(self) -> None:
        pass


PLAIN = [calculator, echo, read_note, fetch, many, verdict, Tally()]
HOUSE: dict[str, Any] = {
    "rooms": ["hall", "cellar", "vault"],
    "doors": [
        {"room": "hall", "direction": "north", "to": "cellar"},
        {"room": "cellar", "direction": "east", "to": "vault", "key": "red key"},
    ],
    "things": [{"name": "red key", "place": "box"}, {"name": "crown", "place": "vault"}],
    "containers": [{"name": "box", "room": "hall"}],
    "start": "hall",
    "treasure": "crown",
    "moves": 9,
}
SQUARES = [{"type": "call", "function": "square", "args": [n], "expected": n * n} for n in (3, -2, 71, 0)]
PATIENT_S, QUICK_S = 60.0, 2.0
"""Time limits of programs: one that no attack reaches on a busy machine, and one for those that are about it."""


class Attacked(NamedTuple):
    """An environment with a task, and turns that are right."""

    env: Any
    task: Prompt
    honest: Sequence[Any]
    """The turns of an episode that scores the maximum."""
    said: str
    """What is in its replies."""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a turn that calls a tool, as rows have it."""
    return {"call": name, "arguments": arguments}


def with_tools() -> Attacked:
    env = ToolEnvironment(verigym.load("math"), PLAIN)
    honest = [[call("tally"), call("calculator", expression="37 * 41")], call("tally"), r"\boxed{1517}"]
    return Attacked(env, env.prompt("What is 37 * 41?", answer="1517"), honest, "1\n1517\n2")


def with_python(wall_s: float = PATIENT_S, max_turn_s: float = 15.0) -> Attacked:
    env = ToolEnvironment(verigym.load("math"), [*PLAIN, python(wall_s=wall_s, memory_mb=96)], max_turn_s=max_turn_s)
    honest = [call("python", code="x = 37"), call("python", code="x * 41"), r"\boxed{1517}"]
    return Attacked(env, env.prompt("What is 37 * 41?", answer="1517"), honest, "(nothing was printed)\n1517\n")


def with_xml() -> Attacked:
    env = ToolEnvironment(verigym.load("math"), [calculator, echo], calls="qwen_xml")
    task = env.prompt("What is 37 * 41?", answer="1517")
    one = "<tool_call>\n<function=calculator>\n<parameter=expression>\n37*41\n</parameter>\n</function>\n</tool_call>"
    return Attacked(env, task, [one, r"\boxed{1517}"], "1517")


def composed() -> Attacked:
    inner = ToolEnvironment(verigym.load("math"), PLAIN, name="sums")
    env = verigym.WeightedSum({"sums": 1.0, "format": 0.25}, {"sums": inner, "format": verigym.load("format")}, name="both")
    task = env.prompt("What is 37 * 41?", sums={"answer": "1517"})
    return Attacked(env, task, [call("calculator", expression="37*41"), "<think>so</think>\n\\boxed{1517}"], "1517")


def guessing(**options: Any) -> Attacked:
    env = verigym.load("number_guessing", **options)
    task = env.prompt("Guess.", above=1000, below=1101, number=1042, guesses=4)
    return Attacked(env, task, [r"\boxed{1050}", r"\boxed{1040}", r"\boxed{1042}"], "Lower. 3 guesses left.\nHigher.")


def rooms(**options: Any) -> Attacked:
    env = verigym.load("treasure_rooms", **options)
    way = ["open box", "take red key", "go north", "unlock east", "go east", "take crown"]
    return Attacked(env, env.prompt("Find the crown.", **HOUSE), way, "You open the box.")


def feedback(wall_s: float = PATIENT_S) -> Attacked:
    limits = {"wall_s": wall_s, "cpu_s": wall_s, "memory_mb": 96}
    env = verigym.load("code_with_feedback", public=2, rounds=4)
    task = env.prompt("Write square(n).", tests=SQUARES, solution="def square(n):\n    return n * n", limits=limits)
    honest = ["```python\ndef square(n):\n    return n + n\n```", "```python\ndef square(n):\n    return n * n\n```"]
    return Attacked(env, task, honest, "expected 9, got 6")


def retrieval() -> Attacked:
    env: Any = verigym.load("retrieval", people=8)
    task = env.prompt_at("train", 0, 1)
    answer = task.references["retrieval"].answer
    return Attacked(env, task, [call("search", query=answer), f"\\boxed{{{answer}}}"], answer)


def mcp() -> Attacked:
    env = ToolEnvironment(verigym.load("math"), mcp_server(MCP))
    task = env.prompt("What is 37 * 41?", answer="1517")
    honest = [call("count", by=2), [call("count", by=3), call("error", code=-32602, message="odd")], r"\boxed{1517}"]
    return Attacked(env, task, honest, "5 ")


MAKERS = {
    "tools": with_tools,
    "python": with_python,
    "python in a hurry": lambda: with_python(QUICK_S, max_turn_s=1.0),
    "xml": with_xml,
    "composed": composed,
    "guessing": guessing,
    "guessing with rewards": lambda: guessing(turn_rewards=True),
    "rooms": rooms,
    "rooms with rewards": lambda: rooms(turn_rewards=True),
    "feedback": feedback,
    "feedback in a hurry": lambda: feedback(QUICK_S),
    "retrieval": retrieval,
    "mcp": mcp,
}


def text_of(turn: Any, heard: str = "") -> str:
    """Return a turn of a row as the text that the model writes.

    A turn is a text, in which `{reply}` stands for the last reply; a call (`call`, `arguments`); a text that is repeated
    (`text`, `times`); or a list of these, one after the other.
    """
    if isinstance(turn, list):
        return "".join(text_of(one, heard) for one in turn)
    if isinstance(turn, str):
        return turn.replace("{reply}", heard)
    if "call" in turn:
        return f"<tool_call>{json.dumps({'name': turn['call'], 'arguments': turn.get('arguments', {})})}</tool_call>"
    return str(text_of(turn["text"], heard) * int(turn["times"]))


class Playing:
    """An episode that is being played."""

    def __init__(self, sessions: Sessions, attacked: Attacked, seed: str) -> None:
        self._episode: Episode = sessions.open(attacked.task, seed)
        self._transcript = Transcript(attacked.task)
        self._over: Completion | None = None

    def play(self, turns: Sequence[Any]) -> None:
        """Play turns, unless the episode ends before."""
        for turn in turns:
            if self._over is not None:
                return
            heard = next((one.text for one in reversed(self._transcript.turns) if one.role != "assistant"), "")
            text = text_of(turn, heard)
            self._transcript.add(Turn(role="assistant", text=text))
            try:
                answer = self._episode.turn(text).result()
            except EnvironmentFailure as error:
                self._over = self._transcript.completion("abort", None, _failure(error))
            except SessionLimit as blamed:
                self._over = self._transcript.completion("limit", {"limit": blamed.why})
            else:
                self._transcript.replace_last(answer.turn)
                self._transcript.answer(answer.reply)
                if answer.reply.done:
                    self._over = self._transcript.completion("stop", answer.outcome)

    def end(self) -> Completion:
        """Close the session and return the episode."""
        if self._over is None:
            self._over = self._transcript.completion("turns", self._episode.end().result())
        return self._over


def _failure(error: EnvironmentFailure) -> ScoreError | None:
    return error.score().error


def heard_in(episode: Completion) -> list[str]:
    """Return what the model read."""
    return [turn.text for turn in episode.turns if turn.role != "assistant"]
