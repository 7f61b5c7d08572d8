"""Runs the hostile set against a back end, two programs at a time, and looks after each pair at what it left behind.

As a script: `python tests/sandbox/hostile/runner.py [--backend local] [--options JSON] [--json] [--match X-B]`. Exits with 1
where a case fails. Invariants, for every case: answered in time (I1), no process left (I2), the next honest program accepted
(I3), the host unchanged (I4), the grader's memory bounded (I5), a verdict and no infrastructure fault (I6).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[3])
if ROOT not in sys.path:
    sys.path.append(ROOT)

from tests.sandbox.hostile.surroundings import Host, bait, peak, reset_peak, survivors  # noqa: E402
from tests.sandbox.hostile.tasks import HONEST, STDIN, TASKS, Case, load_cases  # noqa: E402
from verigym.envs import load  # noqa: E402
from verigym.sandbox import Limits, Program, SandboxFailure, open_sandbox  # noqa: E402

LANES = 2
SLACK_S = 1.0
SLACK_OF_HONEST = 20
"""How much more time than one honest program took, at the same load, a program may have beyond its limit."""
BUILD_S = 30.0  # the wall limit of a compiler
SLACK_KB = 64 << 10
SETTLE_S = 60.0  # ends a hang; the dead are gone in a moment, as soon as the machine has one


class Runner:
    """One back end and the bait around it.

    Args:
        backend: name of the back end.
        options: its settings.
        roots: returns the processes below which the back end's processes are; by default this one.
    """

    def __init__(
        self,
        backend: str,
        canary: Path,
        options: dict[str, Any] | None = None,
        roots: Callable[[], Iterable[int]] | None = None,
    ) -> None:
        options = options or {}
        self.environment = load("code", backend=backend, backend_options=options, parallel=1)
        self.box = open_sandbox(backend, **options)
        self._canary = canary
        self._roots = roots or (lambda: (os.getpid(),))
        self._pool = ThreadPoolExecutor(LANES)
        self.seconds: dict[str, float] = {}
        self._honest_s = 0.0
        self._honest = [self._prompt(task, program) for task, program in HONEST]
        self._accept_honest()  # starts the workers, which belong to the picture before

    def run(self, cases: Sequence[Case]) -> Iterator[tuple[Case, list[str]]]:
        """Yield each case with its failures. Pairs are of like length, so that no lane waits for the other."""
        ordered = sorted(
            cases, key=lambda case: (case.expect == "RUN", case.compiled, case.wall_s, "time" in case.expect, case.id)
        )
        for pair in itertools.batched(ordered, LANES) if hasattr(itertools, "batched") else _batched(ordered, LANES):
            own, shared = self._together(pair)
            if not shared and not any(own):
                yield from zip(pair, own, strict=True)
                continue
            # Alone once more: to know whose doing it was, and because a machine under load may be late once.
            for case, first in zip(pair, own, strict=True):
                (again,), left = self._together([case])
                yield case, [*again, *left] or [note for note in first if "late" not in note]

    def _together(self, cases: Sequence[Case]) -> tuple[list[list[str]], list[str]]:
        before, alive, memory = Host.look(self._canary), survivors(set(self._roots())), reset_peak()
        own = list(self._pool.map(self._try, cases))
        grown = peak() - memory
        left = self._left_behind(before, alive)
        if grown > SLACK_KB + 1024 * 2 * len(cases):
            left.append(f"I5: the grader grew by {grown >> 10} MB")
        left += self._accept_honest()
        return own, left

    def _left_behind(self, before: Host, alive: dict[tuple[int, str], str]) -> list[str]:
        end = time.monotonic() + SETTLE_S
        while True:
            now = survivors(set(self._roots()))
            processes = {key: name for key, name in now.items() if key not in alive}
            changes = before.changes(Host.look(self._canary))
            if not (processes or changes) or time.monotonic() > end:
                break
            time.sleep(0.05)
        found = [f"I4: {change}" for change in changes]
        return [*found, f"I2: processes survive: {sorted(processes.items())[:5]}"] if processes else found

    def _accept_honest(self) -> list[str]:
        took: list[float] = []

        def accepted(item: tuple[Any, str]) -> list[str]:
            start = time.monotonic()
            score = self.environment.score(*item)
            took.append(time.monotonic() - start)
            return [] if score.reward == 1.0 else [f"I3: the next honest program got {score.status}: {score.reason}"]

        found = [note for notes in self._pool.map(accepted, self._honest) for note in notes]
        self._honest_s = max(took)
        return found

    def _prompt(self, task: str, program: str) -> tuple[Any, str]:
        case = Case("honest", "", task, "ACCEPT", "python", program, "")
        return self.environment.prompt("honest", **case.reference()), case.completion

    def _try(self, case: Case) -> list[str]:
        if case.expect == "RUN":
            return self._probe(case)
        prompt = self.environment.prompt(case.title, **case.reference())
        start = time.monotonic()
        score = self.environment.score(prompt, case.completion)
        seconds = time.monotonic() - start
        self.seconds[case.id] = seconds
        failures = [self._late(case, seconds)]
        wrong = case.mismatch(score.reward, str(score.status), score.reason)
        return [note for note in (*failures, f"{'I6: ' if score.reward is None else ''}{wrong}" if wrong else "") if note]

    def _probe(self, case: Case) -> list[str]:
        """Run an attack probe twice: the second time it looks for what the first has left."""
        failures = []
        limits = Limits(wall_s=case.wall_s, cpu_s=case.wall_s, memory_mb=256, processes=32, output_kb=1024)
        for _ in range(2):
            start = time.monotonic()
            try:
                result = self.box.run(Program(source=case.program, language=case.lang), STDIN, limits)
            except SandboxFailure as error:
                return [f"I6: {error}"]
            failures.append(self._late(case, time.monotonic() - start))
            said = result.stdout.decode("utf-8", "replace").splitlines()
            failures += [line for line in said if "LEAK" in line or "PWNED" in line]
            if not result.ok:
                failures.append(f"the probe did not end well: {result.status} {result.message} {result.stderr[-300:]!r}")
        return [note for note in failures if note]

    def _late(self, case: Case, seconds: float) -> str:
        # What is accepted has run all its tests, each under the limit; what is not, ends with the first that fails.
        tests = len(TASKS[case.task]) if case.expect in ("ACCEPT", "EITHER") else 1
        allowed = case.wall_s * tests + SLACK_S + SLACK_OF_HONEST * self._honest_s + (BUILD_S if case.compiled else 0)
        return f"I1: late: {seconds:.2f} s, allowed are {allowed:g}" if seconds > allowed else ""


def _batched(items: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


@contextlib.contextmanager
def open_runner(
    backend: str, options: dict[str, Any] | None = None, roots: Callable[[], Iterable[int]] | None = None
) -> Iterator[Runner]:
    """Lay out the bait and start the back end."""
    with bait() as canary:
        yield Runner(backend, canary, options, roots)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="local")
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--json", action="store_true", help="one line a case: [id, [failures]]")
    parser.add_argument("--times", action="store_true", help="print how long each case took")
    parser.add_argument("--match", default="", help="only cases whose id starts with one of these, separated by commas")
    parser.add_argument("--only", default="", help="only the cases with these ids, separated by commas")
    given = parser.parse_args(arguments)
    only = set(filter(None, given.only.split(",")))
    cases = [
        case for case in load_cases() if case.id.startswith(tuple(given.match.split(","))) and (case.id in only or not only)
    ]
    failed = 0
    start = time.monotonic()
    with open_runner(given.backend, given.options) as runner:
        for case, failures in runner.run(cases):
            failed += bool(failures)
            if given.json:
                print(json.dumps([case.id, failures]), flush=True)
            if given.times:
                print(f"{case.id} {runner.seconds.get(case.id, 0):.2f} s")
            if failures and not given.json:
                print(f"{case.id} {case.title} [{case.task}, {case.expect}]", *failures, sep="\n    ", flush=True)
    if not given.json:
        print(f"{len(cases)} cases, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
