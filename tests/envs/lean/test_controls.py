"""Fail closed: whatever the controls come out as, only all of them right lets anything be scored. The checker here gives canned
verdicts: what is tested is what is made of them.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean import controls
from verigym.envs.lean.controls import Case, catalogue, prove_sound, run_case
from verigym.envs.lean.task import LeanLimits, LeanReference
from verigym.envs.lean.verdict import LeanVerdict
from verigym.envs.user_tmp import own_folder

GOOD = LeanReference(name="target", statement="theorem target : 1 + 1 = 2")
BAD = LeanReference(name="target", statement="theorem target : 1 + 1 = 3")
CASES = (
    Case("good", GOOD, "rfl", "ACCEPT", "a proof"),
    Case("bad", BAD, "by sorry", "REJECT/axiom:sorryAx", "a placeholder"),
)


class Canned:
    """Says for each submission what it was told to."""

    title = "Lean 4.28.0"
    judge_limits = LeanLimits()

    def __init__(self, key: str = "key", time_factor: float = 1.0, **verdicts: LeanVerdict | EnvironmentFailure) -> None:
        self.box: Any = type("Box", (), {"toolchain": type("Toolchain", (), {"key": key}), "time_factor": time_factor})
        self.verdicts = verdicts
        self.asked = 0

    def check(self, reference: LeanReference, submission: str) -> LeanVerdict:
        self.asked += 1
        said = self.verdicts["good" if reference is GOOD else "bad"]
        if isinstance(said, EnvironmentFailure):
            raise said
        return said


ACCEPT = LeanVerdict("ACCEPT")
REJECT = LeanVerdict("REJECT", ("axiom:sorryAx",))


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "judge_hash", lambda: "hash")


def prove(checker: Any, folder: Path) -> None:
    prove_sound(checker, CASES, lambda: str(folder))


def test_all_right_lets_it_score_and_is_not_asked_twice(tmp_path: Path) -> None:
    checker = Canned(good=ACCEPT, bad=REJECT)
    prove(checker, tmp_path)
    prove(checker, tmp_path)
    assert checker.asked == 2
    other = Canned("another toolchain", good=ACCEPT, bad=REJECT)
    prove(other, tmp_path)
    assert other.asked == 2
    patient = Canned(time_factor=10.0, good=ACCEPT, bad=REJECT)
    prove(patient, tmp_path)
    assert patient.asked == 2


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        ({"good": ACCEPT, "bad": ACCEPT}, "failed the control 'bad' .a placeholder.: it gives ACCEPT for REJECT/axiom:sorryAx"),
        ({"good": REJECT, "bad": REJECT}, "failed the control 'good' .a proof.: it gives REJECT/axiom:sorryAx for ACCEPT"),
        ({"good": ACCEPT, "bad": LeanVerdict("REJECT", ("error",))}, "it gives REJECT/error"),
        ({"good": ACCEPT, "bad": LeanVerdict("LIMIT", ("time",))}, "it gives LIMIT/time for .* .the option time_factor gives"),
        ({"good": EnvironmentFailure("backend", "the walls fell"), "bad": REJECT}, "the walls fell; nothing is scored"),
    ],
    ids=["accepts all", "rejects all", "another reason", "too slow", "cannot run"],
)
def test_a_mismatch_closes_it(tmp_path: Path, verdicts: dict[str, Any], why: str) -> None:
    for _ in range(2):  # nothing is noted that would let it pass the second time
        with pytest.raises(EnvironmentFailure, match=why) as caught:
            prove(Canned(**verdicts), tmp_path)
        assert caught.value.kind == "unavailable"
    prove(Canned(good=ACCEPT, bad=REJECT), tmp_path)


def test_what_passed_is_believed_for_a_day(tmp_path: Path) -> None:
    prove(Canned(good=ACCEPT, bad=REJECT), tmp_path)
    (note,) = tmp_path.iterdir()
    old = time.time() - 10 * 24 * 3600
    os.utime(note, (old, old))
    with pytest.raises(EnvironmentFailure):
        prove(Canned(good=ACCEPT, bad=ACCEPT), tmp_path)


def test_the_folder_of_notes_is_this_users_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert oct(os.stat(own_folder("lean")).st_mode)[-3:] == "700"
    (tmp_path / f"verigym-lean-{os.getuid()}").rmdir()
    (tmp_path / f"verigym-lean-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="not a folder of this user"):
        own_folder("lean")


def test_the_catalogue_has_good_and_bad_cases_and_controls() -> None:
    cases = catalogue()
    assert len({case.id for case in cases}) == len(cases) >= 20
    accepted = [case for case in cases if case.expected == "ACCEPT"]
    assert len(accepted) >= 4 and len(cases) - len(accepted) >= 12
    own = [case for case in cases if case.control]
    assert {case.expected == "ACCEPT" for case in own} == {True, False} and 4 <= len(own) <= 8
    for case in cases:
        assert case.why and all(label.partition("/")[0] in ("ACCEPT", "REJECT", "LIMIT") for label in case.expected.split("|"))


def test_an_outcome_may_be_one_of_several() -> None:
    case = Case("either", BAD, "x", "REJECT/error|REJECT/axiom:sorryAx")
    assert run_case(Canned(bad=REJECT), case).right  # type: ignore[arg-type]
    pattern = Case("pattern", BAD, "x", "REJECT/kernel:*|REJECT/error")
    assert run_case(Canned(bad=LeanVerdict("REJECT", ("kernel:target._proof_1",))), pattern).right  # type: ignore[arg-type]
    assert not run_case(Canned(bad=REJECT), pattern).right  # type: ignore[arg-type]
    outcome = run_case(Canned(bad=EnvironmentFailure("backend", "gone")), case)  # type: ignore[arg-type]
    assert not outcome.right and (outcome.got, outcome.detail) == ("UNAVAILABLE", "gone")
