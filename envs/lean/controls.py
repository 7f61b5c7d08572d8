"""Control submissions, good and bad, that are judged before the first verdict. If one is judged wrongly, nothing is scored.

This test detects a judge that does not fit the installed Lean version, a broken library, or a sandbox in which nothing works. A
passed test is recorded in a file of this user, so that other grading processes need not repeat it.
"""

from __future__ import annotations

import fcntl
import fnmatch
import functools
import importlib.resources
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import canonical_json, sha256_hex
from verigym.envs.lean.judging import Checker, judge_hash
from verigym.envs.lean.task import LeanLimits, LeanReference
from verigym.envs.user_tmp import own_folder

_FRESH_S = 24 * 3600.0


@dataclass(frozen=True)
class Case:
    """A submission of which the right verdict is known."""

    id: str
    reference: LeanReference
    submission: str
    expected: str
    """Pattern of the right verdict: `ACCEPT`, `REJECT/statement`, `REJECT/kernel:*`... Alternatives are separated by `|`."""
    why: str = ""
    control: bool = False
    """Whether the case is judged before the first verdict. Other cases are judged only by `verigym lean self-test`."""


@dataclass(frozen=True)
class Outcome:
    """Result of a case."""

    case: Case
    got: str
    """The label of the verdict, or `UNAVAILABLE` and the message if there was no verdict."""
    detail: str
    seconds: float

    @property
    def right(self) -> bool:
        """Whether that is what was expected."""
        return any(fnmatch.fnmatchcase(self.got, pattern) for pattern in self.case.expected.split("|"))


@functools.cache
def catalogue() -> tuple[Case, ...]:
    """Return the library's own cases."""
    text = importlib.resources.files("verigym.envs.lean").joinpath("catalogue.jsonl").read_text(encoding="utf-8")
    return tuple(_case(json.loads(line)) for line in text.splitlines() if line.strip())


def _case(row: dict[str, Any]) -> Case:
    fields = {name: row[name] for name in ("name", "statement", "header", "mode") if name in row}
    reference = LeanReference(**fields, **({"limits": LeanLimits(**row["limits"])} if "limits" in row else {}))
    return Case(row["id"], reference, row["submission"], row["expected"], row["why"], row.get("control", False))


def run_case(checker: Checker, case: Case) -> Outcome:
    """Return the outcome of judging `case` by compiling and checking alone, without the search for banned commands."""
    start = time.monotonic()
    try:
        verdict = checker.check(case.reference, case.submission)
    except EnvironmentFailure as failure:
        return Outcome(case, "UNAVAILABLE", failure.message, time.monotonic() - start)
    return Outcome(case, verdict.label, verdict.detail, time.monotonic() - start)


def prove_sound(checker: Checker, cases: Sequence[Case] | None = None, notes: Callable[[], str] | None = None) -> None:
    """Judge known good and bad submissions, unless the same toolchain, judge and limits passed on this machine within a day.

    Args:
        checker: the checker to test.
        cases: the submissions to judge; None for the cases of the catalogue that are marked as controls.
        notes: function that returns the folder in which passed tests are recorded; None for this user's temporary folder.

    Raises:
        EnvironmentFailure: a case had the wrong outcome, so nothing may be scored.
    """
    cases = [case for case in catalogue() if case.control] if cases is None else cases
    case_fields = [[case.id, case.expected, case.submission, case.reference.model_dump(mode="json")] for case in cases]
    limits = [checker.judge_limits.model_dump(), checker.box.time_factor]
    key = sha256_hex(canonical_json([checker.box.toolchain.key, judge_hash(), limits, case_fields]))
    with _note(f"{notes() if notes else own_folder('lean')}/controls-{key[:32]}") as note:
        if note.passed:
            return
        for case in cases:
            outcome = run_case(checker, case)
            if outcome.right:
                continue
            # What cannot run says what to install; what runs and judges wrongly must not judge at all.
            hint = outcome.detail if outcome.got == "UNAVAILABLE" else f"it gives {outcome.got} for {case.expected}"
            if outcome.got == "LIMIT/time":
                hint += " (the option time_factor gives a slow build more time)"
            raise EnvironmentFailure(
                "unavailable",
                f"lean: {checker.title} failed the control {case.id!r} ({case.why}): {hint}; nothing is scored with it. "
                "`verigym lean self-test` shows all of them",
            )
        note.pass_()


class _Note:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        status = os.fstat(fd)
        self.passed = status.st_size > 0 and 0 <= time.time() - status.st_mtime < _FRESH_S

    def pass_(self) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, b"passed\n", 0)


@contextmanager
def _note(path: str) -> Iterator[_Note]:
    """Hold a note's file: others with the same question wait for the answer instead of working it out as well."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield _Note(fd)
    finally:
        os.close(fd)
