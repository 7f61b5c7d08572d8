"""Runs call tests, each of which calls a function of the program.

All calls share one session with the program. If the program dies, the remaining calls are made in a new session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from verigym.envs.code import compare, show
from verigym.envs.code.outcome import Outcome, ended, stopped, wrong
from verigym.envs.code.reference import CallTest
from verigym.envs.code.run_test import Bench
from verigym.sandbox import Answer, CannotCross, Ended, Loaded, Raised, RunStatus, Session

Numbered = tuple[int, CallTest]
Record = Callable[[int, Outcome], None]
Wanted = Callable[[int], bool]


def run_calls(bench: Bench, tests: Sequence[Numbered], wanted: Wanted, record: Record) -> None:
    """Call the program for each of `tests`, and store each outcome.

    Args:
        bench: the sandbox, the built program and the reference.
        tests: call tests, each with its index.
        wanted: function that says whether the outcome of the test with a given index can still matter.
        record: function that stores the outcome of the test with a given index.

    Raises:
        SandboxFailure: the sandbox failed.
    """
    left = list(tests)
    while left and wanted(left[0][0]):
        with bench.box.session(bench.program, bench.limits) as session:
            loaded = session.loaded
            if not isinstance(loaded, Loaded):
                outcome = _load_failed(bench, loaded)
                for index, _ in left:  # it would not load another time either
                    record(index, outcome)
                return
            left = _until_it_ends(bench, session, left, wanted, record)


def _until_it_ends(bench: Bench, session: Session, tests: list[Numbered], wanted: Wanted, record: Record) -> list[Numbered]:
    """Return the tests that are left because the program died."""
    for place, (index, test) in enumerate(tests):
        if not wanted(index):
            return []
        answer = session.call(test.function, test.args, test.kwargs)
        record(index, _outcome(bench, test, answer))
        if isinstance(answer, Ended):
            return tests[place + 1 :]
    return []


def _outcome(bench: Bench, test: CallTest, answer: Answer | Raised | CannotCross | Ended) -> Outcome:
    if isinstance(answer, Answer):
        return compare.returned(test.expected, answer.value, bench.reference.policy)
    if isinstance(answer, Raised):
        return _raised(bench, answer, "raised")
    if isinstance(answer, CannotCross):
        return wrong(f"returned a {show.line(answer.what, 60)}, which is no plain value")
    return ended(answer.result, bench.reference.limits)


def _load_failed(bench: Bench, loaded: Raised | Ended) -> Outcome:
    if isinstance(loaded, Raised):
        return _raised(bench, loaded, "the program does not load:")
    outcome = ended(loaded.result, bench.reference.limits)
    return Outcome(False, outcome.status, f"while the program loads: {outcome.reason}")


def _raised(bench: Bench, raised: Raised, before: str) -> Outcome:
    if raised.type == "MemoryError":
        return stopped(RunStatus.MEMORY, bench.reference.limits, "")
    said = show.line(f"{raised.type}: {raised.message}" if raised.message else raised.type)
    return Outcome(False, RunStatus.RUNTIME, f"{before} {said}")
