"""Runs a program's tests, in order or in parallel.

The verdict does not depend on how many tests run at the same time: tests before the first failure always run, and tests after
it do not count.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from verigym.envs.code.calls import Numbered, run_calls
from verigym.envs.code.outcome import Outcome, ours
from verigym.envs.code.reference import CallTest, Test
from verigym.envs.code.run_test import Bench, run_one
from verigym.sandbox import SandboxFailure

Unit = Callable[[], None]


class Results:
    """Outcomes of a program's tests, by test index, filled in by several threads.

    An outcome is None if the test was not run, because time ran out or because its outcome could not matter.
    """

    def __init__(self, count: int, stop_at_first_failure: bool, until: float = math.inf) -> None:
        self._until = until
        self.outcomes: list[Outcome | None] = [None] * count
        self._stop = stop_at_first_failure
        self._first_failure = count
        self._lock = threading.Lock()

    def wanted(self, index: int) -> bool:
        """Return whether the outcome of test `index` can still matter and there is time to run it."""
        with self._lock:
            in_time = index == 0 or time.monotonic() < self._until
            return in_time and (not self._stop or index < self._first_failure)

    def record(self, index: int, outcome: Outcome) -> None:
        """Note an outcome."""
        with self._lock:
            self.outcomes[index] = outcome
            if not outcome.passed:
                self._first_failure = min(self._first_failure, index)


def run_tests(bench: Bench, parallel: int, until: float = math.inf) -> list[Outcome | None]:
    """Run the tests and return their outcomes, with None for a test that was not run.

    Each test is a unit of work, except that all call tests together form one unit.

    Args:
        bench: the sandbox, the built program and the reference.
        parallel: number of units that run at a time.
        until: `time.monotonic()` value after which no test except the first is started.
    """
    reference = bench.reference
    stop = reference.policy.stop_at_first_failure and not reference.policy.partial
    results = Results(len(reference.tests), stop, until)
    units = _units(bench, results)
    if min(parallel, len(units)) == 1:
        for unit in units:
            unit()
    else:
        # Threads of this call alone: nothing to pickle, nothing that a fork would leave without its threads.
        with ThreadPoolExecutor(min(parallel, len(units)), thread_name_prefix="code-test") as pool:
            for done in [pool.submit(unit) for unit in units]:
                done.result()
    return results.outcomes


def _units(bench: Bench, results: Results) -> list[Unit]:
    calls: list[Numbered] = []
    units: list[Unit] = []
    for index, test in enumerate(bench.reference.tests):
        if not isinstance(test, CallTest):
            units.append(partial(_single, bench, results, index, test))
            continue
        if not calls:
            units.append(partial(_calls, bench, results, calls))
        calls.append((index, test))
    return units


def _single(bench: Bench, results: Results, index: int, test: Test) -> None:
    if results.wanted(index):
        try:
            results.record(index, run_one(bench, index + 1, test))
        except SandboxFailure as error:
            results.record(index, ours(error))


def _calls(bench: Bench, results: Results, tests: list[Numbered]) -> None:
    if not results.wanted(tests[0][0]):
        return
    try:
        run_calls(bench, tests, results.wanted, results.record)
    except SandboxFailure as error:
        for index, _ in tests:
            if results.outcomes[index] is None and results.wanted(index):
                results.record(index, ours(error))
