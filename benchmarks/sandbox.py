"""The sandbox against a bare interpreter, and against bubblewrap around one. Prints ratios; the last line is one JSON object.

CPU is counted by rusage where processes end and from /proc for the warm worker, whose children it includes; both sides of a
ratio are taken in turns in the same run. A loaded machine inflates wall times, so check `uptime` first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from verigym.sandbox import Limits, Program, SandboxFailure, TestSuite, open_sandbox
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.view import interpreter

TICK = os.sysconf("SC_CLK_TCK")
IMPORTS = """bisect collections copy datetime decimal enum fractions functools heapq itertools json math 
operator random re string sys typing"""
DOUBLE = Program(source="print(2 * int(input()))")
FUNCTION = Program(source="def f(n):\n    return 2 * n\n")
SUITE = TestSuite(kind="assert", code="assert f(3) == 6\nassert f(10) == 20\nassert f(-4) == -8\n")
LIMITS = Limits(wall_s=10, cpu_s=10, memory_mb=256)


def own_cpu() -> float:
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def workers_cpu(box: Any) -> float:
    """CPU seconds of all workers and of every run they have reaped."""
    total = 0
    for worker in box._pool._all.values():
        pids = [worker.process.pid]
        for pid in pids:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
    return total / TICK


class Side:
    """One side of a comparison: what to do, and what it has cost so far."""

    def __init__(self, name: str, do: Callable[[], object], box: Any = None) -> None:
        self.name, self.do, self.box = name, do, box
        self.wall: list[float] = []
        self.cpu = 0.0

    def round(self, times: int) -> None:
        """Do it so many times."""
        cpu = own_cpu() + (workers_cpu(self.box) if self.box else 0.0)
        for _ in range(times):
            start = time.perf_counter()
            self.do()
            self.wall.append(time.perf_counter() - start)
        self.cpu += own_cpu() + (workers_cpu(self.box) if self.box else 0.0) - cpu

    @property
    def wall_ms(self) -> float:
        """Median wall time of one, milliseconds."""
        return statistics.median(self.wall) * 1e3

    @property
    def cpu_ms(self) -> float:
        """Mean CPU time of one, milliseconds."""
        return self.cpu / len(self.wall) * 1e3


def in_turns(rounds: int, times: int, *sides: Side) -> None:
    for side in sides:
        side.do()  # workers are warm, files are cached
    for _ in range(rounds):
        for side in sides:
            side.round(times)
    for side in sides:
        print(f"  {side.name:<46} wall {side.wall_ms:7.2f} ms (median)   CPU {side.cpu_ms:7.2f} ms (mean)")


def bare(*command: str) -> Callable[[], object]:
    def do() -> object:
        return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)

    return do


def right(verdict: Any) -> None:
    assert verdict.passed, verdict


def doubled(box: Any) -> Callable[[], object]:
    def do() -> None:
        result = box.run(DOUBLE, b"21\n", LIMITS)
        assert result.stdout == b"42\n", result

    return do


def throughput(box: LocalSandbox, workers: int, seconds: float) -> float:
    """Runs a second with as many threads as workers."""
    do = doubled(box)
    threads_done = [0] * workers
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < end:
            do()
            threads_done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(threads_done) / (time.perf_counter() - start)


def scaling(slices: int, seconds: float = 0.4) -> tuple[float, float, float]:
    """Runs a second with one worker and with two, and the median of the ratios; in short turns, for speeds drift."""
    one, two = LocalSandbox(workers=1), LocalSandbox(workers=2)
    throughput(one, 1, seconds)
    throughput(two, 2, seconds)  # warm
    pairs = [(throughput(one, 1, seconds), throughput(two, 2, seconds)) for _ in range(slices)]
    one.close()
    two.close()
    rates = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return rates[0], rates[1], statistics.median(b / a for a, b in pairs)


class Apart:
    """This benchmark in a process of its own, with one worker."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "--apart"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def go(self, seconds: float) -> None:
        """Begin to run programs, for so long."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin)

    def rate(self) -> float:
        """Wait for the end; return runs a second."""
        assert self._process.stdout is not None
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()

    @staticmethod
    def serve() -> None:
        """Be that process."""
        box = LocalSandbox(workers=1)
        for line in sys.stdin:
            print(throughput(box, 1, float(line)), flush=True)
        box.close()


def ceiling(slices: int, seconds: float = 0.4) -> float:
    """What two workers could reach: two processes that have nothing in common but the machine, to one of them alone."""
    sides = [Apart(), Apart()]
    found = []
    for _ in range(slices + 1):  # the first warms up
        sides[0].go(seconds)
        alone = sides[0].rate()
        for side in sides:
            side.go(seconds)
        found.append(sum(side.rate() for side in sides) / alone)
    for side in sides:
        side.close()
    return statistics.median(found[1:])


def quickest_interpreter() -> str:
    """Of this Python and the system's, the one that starts with less CPU: the fairer floor."""
    sides = [
        Side(path, bare(path, "-c", "print(1)"))
        for path in {interpreter(), shutil.which("python3", path="/usr/bin") or interpreter()}
    ]
    for side in sides:
        side.round(5)
    return min(sides, key=lambda side: side.cpu).name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--docker-url", help="measure the docker back end too, on this socket")
    parser.add_argument("--docker-image", default="localhost/verigym-sandbox:latest")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.apart:
        Apart.serve()
        return
    python = quickest_interpreter()
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; bare interpreter: {python}; in the sandbox: {interpreter()}"
    )
    box = LocalSandbox(workers=1)
    floor = Side("bare python3 -c 'print(1)'", bare(python, "-c", "print(1)"))
    stdin = Side("stdin test, warm, walled in", doubled(box), box)
    asserts = Side("assert test, two processes", lambda: right(box.test(FUNCTION, SUITE, LIMITS)), box)
    in_turns(arguments.rounds, 100, floor, stdin, asserts)  # many at a time: the kernel counts hundredths of a second
    ratios = {
        "stdin_cpu_vs_bare": stdin.cpu_ms / floor.cpu_ms,
        "assert_cpu_vs_bare": asserts.cpu_ms / floor.cpu_ms,
        "stdin_wall_vs_bare": stdin.wall_ms / floor.wall_ms,
        "assert_cpu_vs_stdin": asserts.cpu_ms / stdin.cpu_ms,
        "assert_wall_vs_stdin": asserts.wall_ms / stdin.wall_ms,
    }
    if bwrap := shutil.which("bwrap"):
        walls = [
            bwrap,
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
        ]
        peer = Side(
            "bubblewrap + python + usual imports",
            bare(*walls, python, "-I", "-S", "-c", f"import {', '.join(IMPORTS.split())}\nprint(1)"),
        )
        ours = Side("ours, the same imports", doubled(box), box)
        in_turns(max(2, arguments.rounds // 2), 5, peer, ours)
        ratios["throughput_vs_bubblewrap_wall"] = peer.wall_ms / ours.wall_ms
    else:
        print("  bubblewrap is not installed: not compared")
    if arguments.docker_url:
        try:
            docker = open_sandbox("docker", base_url=arguments.docker_url, image=arguments.docker_image, workers=1)
            docker.check()
            warm = Side("docker, warm", doubled(docker))
            again = Side("bare python3 -c 'print(1)'", bare(python, "-c", "print(1)"))
            in_turns(arguments.rounds, 10, again, warm)
            ratios["docker_wall_vs_bare"] = warm.wall_ms / again.wall_ms
            docker.close()
        except SandboxFailure as error:
            print(f"  docker: {error}")
    box.close()
    if (os.cpu_count() or 1) >= 2:
        slow, quick, ratio = scaling(arguments.rounds)
        print(f"  runs a second: one worker {slow:.0f}, two workers {quick:.0f}")
        ratios["two_workers_vs_one"] = ratio
        ratios["two_processes_vs_one"] = ceiling(arguments.rounds)
    print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))


if __name__ == "__main__":
    main()
