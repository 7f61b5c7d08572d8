"""Live Python sessions in workers, against a new interpreter for each call, and against a bare interpreter for each session.

Every round, all sessions get one call at the same time, as in a rollout in lockstep, on two cores. The sides take turns. A new
interpreter for each call (`subprocess.run([python, "-c", code])`, the tool of SkyRL's examples) keeps no names; the bare
interpreters keep them, without walls or limits. Prints ratios; the last line is one JSON object. A loaded machine inflates
all of it, so check `uptime` first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import verigym
from verigym import ToolEnvironment
from verigym.envs.sessions import Answer, Sessions
from verigym.sandbox.view import interpreter
from verigym.tools import python

LOOP = """
import ast, contextlib, io, json, sys
names = {}
for line in sys.stdin:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(json.loads(line), names)
    print(json.dumps(out.getvalue()), flush=True)
"""


class Side:
    """One side of the comparison: what a round of calls costs."""

    def __init__(self, name: str, call: Callable[[int, str], Future[str]], pids: Callable[[], Iterable[int]]) -> None:
        self.name, self.call, self.pids = name, call, pids
        self.rates: list[float] = []
        self.worst_s: list[float] = []
        self.first_s = 0.0
        self.memory_mb = 0.0

    def round(self, number: int, episodes: int, *, keeps: bool) -> float:
        """Give every session a call; return the seconds until all have answered."""
        start = time.perf_counter()
        waits: list[float] = []
        calls = []
        for episode in range(episodes):
            code = f"x = {episode}" if number == 0 or not keeps else "x += 1"
            future = self.call(episode, f"{code}\nprint(x)")
            future.add_done_callback(lambda _: waits.append(time.perf_counter() - start))
            calls.append(future)
        for episode, future in enumerate(calls):
            said, expected = future.result(), f"{episode + (number if keeps else 0)}\n"
            assert said == expected, (self.name, said, expected)
        seconds = time.perf_counter() - start
        if number:
            self.rates.append(episodes / seconds)
            self.worst_s.append(max(waits))
        else:
            self.first_s = seconds / episodes
        self.memory_mb = max(self.memory_mb, sum(map(shared_fairly_mb, self.pids())))
        return seconds

    def show(self, episodes: int) -> None:
        """Print a line."""
        print(
            f"  {self.name:<38} {self.rate:8.0f} calls a second   worst wait {self.worst * 1e3:8.1f} ms   "
            f"first call {self.first_s * 1e3:7.1f} ms   {self.memory_mb / episodes:6.2f} MB a session"
        )

    @property
    def rate(self) -> float:
        """Median calls a second."""
        return statistics.median(self.rates)

    @property
    def worst(self) -> float:
        """Median over rounds of the longest wait, seconds."""
        return statistics.median(self.worst_s)


def shared_fairly_mb(pid: int) -> float:
    """Memory of a process, with its part of what it shares (PSS), in MB."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024
    except OSError:  # it has ended, or belongs to another user
        return 0.0


def below(pids: Iterable[int]) -> list[int]:
    """These processes and all below them."""
    found = list(pids)
    for pid in found:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                    found += map(int, file.read().split())
        except OSError:
            continue
    return found


class Bare:
    """An interpreter for each session, without walls."""

    def __init__(self, pool: ThreadPoolExecutor, episodes: int) -> None:
        self._pool = pool
        self._processes: list[subprocess.Popen[str] | None] = [None] * episodes

    def pids(self) -> list[int]:
        """The interpreters."""
        return [one.pid for one in self._processes if one is not None]

    def call(self, episode: int, code: str) -> Future[str]:
        """Run code where the session's names are."""
        return self._pool.submit(self._call, episode, code)

    def _call(self, episode: int, code: str) -> str:
        process = self._processes[episode]
        if process is None:
            command = [interpreter(), "-S", "-c", LOOP]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            self._processes[episode] = process
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps(code), file=process.stdin)
        said: str = json.loads(process.stdout.readline())
        return said

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            if process is not None:
                process.communicate()


def once(code: str) -> str:
    """Run code in an interpreter of its own."""
    return subprocess.run([interpreter(), "-c", code], capture_output=True, text=True, timeout=30, check=True).stdout


def ours(sessions: Sessions, env: ToolEnvironment, episodes: int) -> Callable[[int, str], Future[str]]:
    """Return the calls of live episodes in workers."""
    prompt = env.prompt("What is 37 * 41?", answer="1517")
    live = [sessions.open(prompt, str(number)) for number in range(episodes)]

    def call(episode: int, code: str) -> Future[str]:
        text = f"<tool_call>{json.dumps({'name': 'python', 'arguments': {'code': code}})}</tool_call>"
        said: Future[str] = Future()

        def done(answer: Future[Answer]) -> None:
            if (error := answer.exception()) is not None:
                said.set_exception(error)
            else:
                said.set_result(answer.result().reply.messages[0].content)

        live[episode].turn(text).add_done_callback(done)
        return said

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    episodes, workers = arguments.episodes, arguments.workers
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {episodes} live sessions on {workers} workers")
    env = ToolEnvironment(verigym.load("math"), tools=[python()])
    with ThreadPoolExecutor(workers) as pool, Sessions({env.name: env}, workers=workers) as sessions:
        before = set(below([os.getpid()]))
        sessions.start()
        tops = set(below([os.getpid()])) - before
        idle_mb = sum(map(shared_fairly_mb, tops))
        bare = Bare(pool, episodes)
        walled = Side("ours: sandboxed, in workers", ours(sessions, env, episodes), lambda: set(below(tops)))
        held = Side("a bare interpreter for each session", bare.call, bare.pids)
        new = Side("a new interpreter for each call", lambda _, code: pool.submit(once, code), lambda: [])
        for number in range(arguments.rounds + 1):
            walled.round(number, episodes, keeps=True)
            held.round(number, episodes, keeps=True)
            new.round(number, episodes, keeps=False)
        bare.close()
        begun = time.perf_counter()
    closing_s = time.perf_counter() - begun
    for side in (walled, held, new):
        side.show(episodes)
    print(f"  the workers alone {idle_mb:.0f} MB; ended with all sessions in {closing_s:.1f} s")
    ratios = {
        "calls_vs_new_interpreter": walled.rate / new.rate,
        "calls_vs_bare_interpreter": walled.rate / held.rate,
        "worst_wait_vs_new_interpreter": walled.worst / new.worst,
        "worst_wait_vs_bare_interpreter": walled.worst / held.worst,
        "first_call_vs_new_interpreter": walled.first_s / new.first_s,
        "memory_vs_bare_interpreter": walled.memory_mb / held.memory_mb,
        "calls_a_second": walled.rate,
        "worst_wait_ms": walled.worst * 1e3,
        "mb_a_session": walled.memory_mb / episodes,
    }
    print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))


if __name__ == "__main__":
    main()
