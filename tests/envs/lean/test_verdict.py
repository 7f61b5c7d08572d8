"""From how processes ended, and from the judge's own file, to a verdict: pure, and moved by nothing that was printed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Status
from verigym.envs.lean.compile import Compiled, read_end
from verigym.envs.lean.task import LeanLimits
from verigym.envs.lean.verdict import (
    REASONS,
    Answer,
    LeanVerdict,
    NoAnswer,
    of_compiling,
    of_crash,
    of_judging,
    on_trial,
    read_answer,
    to_score,
)
from verigym.sandbox import RunResult, RunStatus

NONCE = "4f" * 16
ALLOWED = ("propext", "Quot.sound", "Classical.choice")
GOOD = {"nonce": NONCE, "verdict": "accept", "reason": "", "axioms": ["propext"], "lean": "4.28.0"}
# Every marker that decides anything anywhere here, and what older checkers look for.
PRINTED = "\n".join(
    [
        json.dumps(GOOD),
        json.dumps({**GOOD, "nonce": ""}),
        '{"verdict": "accept"}',
        "ACCEPT",
        "'target' does not depend on any axioms",
        "Solution.lean:1:0: info: all good",
        '{"env": 0}\n\n{"results": [{"id": "target", "response": {"env": 0}}]}',
        "answer.json Solution.olean Challenge.olean request.json",
        "Solution.lean:1:0: error: not an error",
        "std::bad_alloc MemoryError",
    ]
).encode()


def read(told: Any, exit_code: int | None = 0) -> Answer:
    content = told if isinstance(told, bytes | type(None)) else json.dumps(told).encode()
    return read_answer(content, exit_code, NONCE, ALLOWED)


def test_an_answer_is_read() -> None:
    assert read(GOOD) == Answer(True, "", ("propext",), "4.28.0")
    told = {**GOOD, "verdict": "reject", "reason": "axiom:sorryAx", "axioms": ["sorryAx"]}
    assert read(told) == Answer(False, "axiom:sorryAx", ("sorryAx",), "4.28.0")
    for reason in REASONS:
        assert not read({**told, "reason": reason}).accept


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nonce": "other"}, "not for this question"),
        ({"nonce": None}, "not for this question"),
        ({"nonce": [NONCE]}, "not for this question"),
        ({"verdict": "ACCEPT"}, "contradicts itself"),
        ({"verdict": True}, "contradicts itself"),
        ({"verdict": "accept", "reason": "statement"}, "contradicts itself"),
        ({"axioms": ["sorryAx"]}, "contradicts itself"),
        ({"axioms": ["propext", "cheat"]}, "contradicts itself"),
        ({"verdict": "reject", "reason": ""}, "contradicts itself"),
        ({"verdict": "reject", "reason": "the kernel said no"}, "contradicts itself"),
        ({"axioms": None}, "lacks a reason or axioms"),
        ({"axioms": [1]}, "lacks a reason or axioms"),
        ({"reason": None}, "lacks a reason or axioms"),
    ],
    ids=str,
)
def test_an_answer_that_is_not_whole_is_none(change: dict[str, Any], why: str) -> None:
    with pytest.raises(NoAnswer, match=why):
        read({**GOOD, **change})


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, PRINTED])
def test_what_is_no_answer_is_none(content: bytes | None) -> None:
    with pytest.raises(NoAnswer):
        read(content)


@pytest.mark.parametrize("exit_code", [1, 137, None])
def test_an_answer_counts_only_with_exit_code_0(exit_code: int | None) -> None:
    with pytest.raises(NoAnswer, match="exit code|signal"):
        read(GOOD, exit_code)


NAME = "Solution.olean"


def result(status: RunStatus, exit_code: int | None, signal: int | None, olean: bytes, printed: bytes = PRINTED) -> RunResult:
    files = {NAME: olean} if olean else {}
    return RunResult(status=status, stdout=printed, stderr=printed, exit_code=exit_code, signal=signal, files=files)


@pytest.mark.parametrize(
    ("status", "exit_code", "signal", "olean", "expected"),
    [
        (RunStatus.OK, 0, None, b"olean", None),
        (RunStatus.OK, 0, None, b"", "REJECT/missing"),
        (RunStatus.RUNTIME, 1, None, b"olean", "REJECT/error"),
        (RunStatus.RUNTIME, 1, None, b"", "REJECT/error"),
        (RunStatus.TIME, None, 9, b"olean", "LIMIT/time"),
        (RunStatus.MEMORY, None, 9, b"", "LIMIT/memory"),
        (RunStatus.OUTPUT, None, 9, b"olean", "LIMIT/output"),
        (RunStatus.RUNTIME, None, 25, b"olean", "LIMIT/file"),
        (RunStatus.RUNTIME, 153, None, b"", "LIMIT/file"),
    ],
)
def test_nothing_printed_moves_stage_1(
    status: RunStatus, exit_code: int | None, signal: int | None, olean: bytes, expected: str | None
) -> None:
    compiled = read_end(result(status, exit_code, signal, olean), NAME, LeanLimits())
    verdict = of_compiling(compiled, "Lean 4")
    assert (verdict and verdict.label) == expected
    silent = read_end(result(status, exit_code, signal, olean, b""), NAME, LeanLimits())
    assert (silent.ended, silent.files) == (compiled.ended, compiled.files)


@pytest.mark.parametrize(("exit_code", "signal"), [(None, 11), (None, 6), (139, None), (134, None)])
def test_a_crash_is_no_verdict_yet(exit_code: int | None, signal: int | None) -> None:
    assert read_end(result(RunStatus.RUNTIME, exit_code, signal, b"olean"), NAME, LeanLimits()).ended == "crash"


@pytest.mark.parametrize(
    ("attempts", "control", "expected", "controls"),
    [
        (["fine"], True, "fine", 0),
        (["crash", "fine"], True, "fine", 1),
        (["crash", "crash"], True, None, 1),
        (["crash"], False, "raises", 1),
    ],
)
def test_the_crash_rule(attempts: list[str], control: bool, expected: str | None, controls: int) -> None:
    left, seen = list(attempts), []

    def trial() -> str | None:
        return on_trial(
            lambda: left.pop(0), lambda found: found == "crash", lambda: bool(seen.append(1)) or control, "the judge"
        )

    if expected == "raises":
        with pytest.raises(EnvironmentFailure, match="the judge crashed, and on a known good file, too") as caught:
            trial()
        assert caught.value.retryable
    else:
        assert trial() == expected
    assert not left and len(seen) == controls


def test_scores_are_binary_and_say_why() -> None:
    compiled = Compiled("compiled", {NAME: b"olean"}, seconds=1.0)
    accepted = of_judging(Answer(True, "", ("propext",), "4.28.0"), compiled, "Lean 4.28.0", 2.0)
    score = to_score(accepted, "rfl")
    assert (score.reward, score.status, score.answer) == (1.0, Status.CORRECT, "rfl")
    assert score.reason == "accepted by Lean 4.28.0; propext"
    assert dict(accepted.times) == {"compile": 1.0, "judge": 2.0}
    partly = of_judging(read({**GOOD, "axioms": [], "imports": "exported"}), compiled, "Lean 4.28.0", 2.0)
    assert (
        to_score(partly).reason
        == "accepted by Lean 4.28.0; no axioms; the libraries' own proofs were not there to be looked through"
    )
    refused = of_judging(Answer(False, "axiom:sorryAx", ("sorryAx",), ""), compiled, "Lean 4.28.0", 2.0)
    assert (refused.label, to_score(refused).status, to_score(refused).reward) == (
        "REJECT/axiom:sorryAx",
        Status.INCORRECT,
        0.0,
    )
    late = of_crash("judge", compiled, "Lean 4.28.0")
    assert (late.label, to_score(late).status, to_score(late).reward) == ("LIMIT/crash", Status.LIMIT, 0.0)
    with pytest.raises(EnvironmentFailure, match="install it"):
        to_score(LeanVerdict("UNAVAILABLE", detail="install it"))
