"""The worker process: limits its own rights and memory, then judges one item at a time until its parent is gone."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Mapping
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.schema import Completion, Score
from verigym.envs.grading.channel import Channel, encode
from verigym.envs.grading.judging import control_one, judge_group, judge_one
from verigym.envs.grading.process import READY
from verigym.sandbox.confine import confine, parent_is


def serve(sock: socket.socket, environments: Mapping[str, Environment], memory_bytes: int | None, parent_pid: int) -> None:
    """Answer requests from `sock` until the connection closes. This is the main function of a spawned process."""
    settle(sock, memory_bytes, parent_pid)
    channel = Channel(sock)
    for environment in environments.values():
        if callable(prepare := getattr(environment, "prepare", None)):
            prepare()
    channel.send(encode(READY))
    roomy = Room(memory_bytes)
    while True:
        try:
            request = channel.receive()
        except EOFError:
            # Threads that an environment left behind must not keep the process.
            os._exit(0)
        scores = [score.model_dump(mode="json") for score in _answer(environments, request)]
        channel.send(encode({"id": request["id"], "scores": scores, "retire": not roomy.enough()}))


def settle(sock: socket.socket, memory_bytes: int | None, parent_pid: int) -> None:
    """Prepare this worker process: give it its own session and a memory limit, stop core dumps, and let it die with its parent.

    The process also loses access to the parent's stdin and stdout.
    """
    sock.set_inheritable(False)
    os.setsid()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which drops one that came while the process started
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, before)
    # Not hardened: an environment may have to make namespaces or containers of its own.
    confine(memory_bytes=memory_bytes, die_with_parent=True, hardened=False)
    if not parent_is(parent_pid):  # it died before the line above
        os._exit(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # the parent's stdout may be a file of results


def _answer(environments: Mapping[str, Environment], request: Mapping[str, Any]) -> list[Score]:
    environment = environments[request["environment"]]
    try:
        prompt = environment.load_prompt(request["prompt"])
        completions = [None if fields is None else Completion(**fields) for fields in request["completions"]]
        if request["together"]:
            return judge_group(environment, prompt, completions)
        return [control_one(environment, prompt) if c is None else judge_one(environment, prompt, c) for c in completions]
    except BaseException as error:  # nothing the model wrote is read above `judge_one`, which does not raise
        return [Score.failed("internal", f"{environment.name}: {describe(error)}")] * len(request["completions"])


class Room:
    """Tells whether this worker has enough memory left to grade another item.

    A worker that is short of memory is replaced in time, so that no completion is blamed for a slow memory leak.
    """

    def __init__(self, memory_bytes: int | None) -> None:
        self._limit = memory_bytes if os.path.exists("/proc/self/statm") else None
        self._threshold: int | None = None

    def enough(self) -> bool:
        """Return whether at least half of the memory that was free after the first item is still free."""
        if self._limit is None:
            return True
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        if self._threshold is None:  # after the first item, everything that is loaded lazily has been loaded
            self._threshold = used + max(self._limit - used, 0) // 2
        return used <= self._threshold
