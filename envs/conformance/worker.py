"""The process in which a checked environment runs, within limits of time and memory."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from verigym.envs.composition.base import generates_tasks, sample_tasks
from verigym.envs.conformance.playing import Play, play_all
from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.grading.channel import Channel, encode
from verigym.envs.grading.child import settle
from verigym.envs.grading.process import READY

GENERATED_PROMPTS = 4
SWITCH_S = 1e-5
"""Thread switch interval, short enough that threads interleave even in a judge of a few microseconds."""

Item = tuple[Prompt, Completion]


def serve(sock: socket.socket, environment: Environment, memory_bytes: int | None, parent_pid: int) -> None:
    """Answer requests from `sock` until the connection closes. This is the main function of a child process.

    Args:
        sock: the worker's end of the connection.
        environment: the environment to check.
        memory_bytes: how much the process may enlarge its address space; None for no limit. What it has at the start does not
            count, since a forked process inherits that from its parent.
        parent_pid: process id of the client.
    """
    settle(sock, None if memory_bytes is None else memory_bytes + _held_bytes(), parent_pid)
    channel = Channel(sock)
    if callable(prepare := getattr(environment, "prepare", None)):
        prepare()
    channel.send(encode(READY))
    while True:
        try:
            request = channel.receive()
        except EOFError:
            os._exit(0)
        try:
            reply = encode({"id": request["id"], "reply": _HANDLERS[request["do"]](environment, request)})
        except BaseException as error:  # a grader may call sys.exit(), a Rust extension may panic
            reply = encode({"id": request["id"], "raised": describe(error)})
        channel.send(reply)


def _held_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _samples(environment: Environment, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the environment's examples, else the first tasks that it generates."""
    tasks = list(sample_tasks(environment))
    if not tasks and generates_tasks(environment):
        source: Any = environment
        tasks = [source.prompt_at("train", 0, index) for index in range(GENERATED_PROMPTS)]
    return [task.model_dump(mode="json") for task in tasks]


def _gold(environment: Environment, request: Mapping[str, Any]) -> str | None:
    gold = environment.gold(environment.load_prompt(request["prompt"]))
    if not isinstance(gold, str | None):
        raise TypeError(f"gold() returned {type(gold).__name__} instead of a text or None")
    return gold


def _tasks(environment: Environment, request: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return generated tasks by (split, seed, index); None if the environment generates none."""
    if not generates_tasks(environment):
        return None
    source: Any = environment
    return [source.prompt_at(*place).model_dump(mode="json") for place in request["tasks"]]


def _demonstrate(environment: Environment, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an episode that the environment plays well; None if it plays none."""
    demonstrate = getattr(environment, "demonstrate", None)
    if demonstrate is None:
        return None
    episode: Completion = demonstrate(environment.load_prompt(request["prompt"]))
    return episode.model_dump(mode="json")


def _play(environment: Environment, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    plays = [Play(**play) for play in request["plays"]]
    played = play_all(environment, plays, lambda prompt, episode: _score_form(environment, (prompt, episode)))
    return [one.model_dump(mode="json") for one in played]


def _judge(environment: Environment, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Judge items one after the other, inside an event loop, or each in its own thread."""
    items = [(environment.load_prompt(prompt), Completion(**fields)) for prompt, fields in request["items"]]
    return _JUDGE_MODES[request["how"]](environment, items)


def _plainly(environment: Environment, items: Sequence[Item]) -> list[dict[str, Any]]:
    return [_score_form(environment, item) for item in items]


def _in_event_loop(environment: Environment, items: Sequence[Item]) -> list[dict[str, Any]]:
    async def judge_all() -> list[dict[str, Any]]:
        return _plainly(environment, items)

    return asyncio.run(judge_all())


def _in_threads(environment: Environment, items: Sequence[Item]) -> list[dict[str, Any]]:
    together = threading.Barrier(len(items))

    def judge(item: Item) -> dict[str, Any]:
        together.wait()
        return _score_form(environment, item)

    with _quick_switches(), ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(judge, items))


@contextmanager
def _quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _score_form(environment: Environment, item: Item) -> dict[str, Any]:
    """Return the score as JSON, or how `score`, which must never raise, broke its contract."""
    prompt = item[0].model_dump(mode="json")
    try:
        score = environment.score(*item)
    except BaseException as error:
        return {"raised": f"raised {describe(error)}"}
    if item[0].model_dump(mode="json") != prompt:  # the next completion of the same prompt would be judged by another reference
        return {"raised": "changed its prompt's reference or metadata: judge() must leave both as they are"}
    if not isinstance(score, Score):
        return {"raised": f"returned {type(score).__name__} instead of a Score"}
    try:
        form = score.model_dump(mode="json", warnings=False)
        Score.model_validate(form)
        encode(form)
    except Exception as error:
        return {"raised": f"returned no valid Score: {describe(error)}"}
    return {"score": form}


_HANDLERS: Mapping[str, Callable[[Environment, Mapping[str, Any]], Any]] = {
    "samples": _samples,
    "gold": _gold,
    "tasks": _tasks,
    "demonstrate": _demonstrate,
    "play": _play,
    "judge": _judge,
}
_JUDGE_MODES: Mapping[str, Callable[[Environment, Sequence[Item]], list[dict[str, Any]]]] = {
    "plainly": _plainly,
    "in an event loop": _in_event_loop,
    "in threads": _in_threads,
}
