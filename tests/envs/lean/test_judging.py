"""Stage 2's process layer where the judge misbehaves: it is a shell script here, which never gives a whole answer. No verdict
comes of that, and what it prints is not read.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from needs import lack, needs

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean import judging
from verigym.envs.lean.compile import LeanBox
from verigym.envs.lean.judging import Checker
from verigym.envs.lean.task import LeanLimits, LeanReference
from verigym.envs.lean.toolchain import Toolchain
from verigym.envs.lean.verdict import NoAnswer

REFERENCE = LeanReference(name="target", statement="theorem target : 1 + 1 = 2")
LIMITS = LeanLimits(wall_s=120, cpu_s=10, memory_mb=256, processes=16, output_kb=64, file_mb=1)
WRITES = 'printf \'{"nonce": "%s", "verdict": "accept", "reason": "", "axioms": [], "lean": ""}\''
PRINTS = f"{WRITES} 0; {WRITES} 0 >&2; echo ACCEPT"
LEFT_ALONE = "answer.json"


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """Runs its second argument as a shell script, which of `--run Judge.lean request.json` is the judge."""
    folder = tmp_path_factory.mktemp("shell")
    folder.chmod(0o755)
    runner = folder / "runner"
    runner.write_text('#!/bin/sh\nexec /bin/sh "$2"\n')
    runner.chmod(0o755)
    box = LeanBox(Toolchain(str(runner), "4.0.0", "", (), (str(folder),), "key"), workers=1)
    try:
        box.check()
    except EnvironmentFailure as failure:
        lack("bubblewrap", failure)
    return Checker(box, LIMITS)


def answer(checker: Checker, monkeypatch: pytest.MonkeyPatch, script: str) -> str:
    monkeypatch.setattr(judging, "judge_source", lambda: script)
    found = checker._judge(REFERENCE, {"Challenge.olean": b"challenge"}, {"Solution.olean": b"solution"})
    assert isinstance(found, NoAnswer)
    return str(found)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param(PRINTS, "left no answer", id="only prints"),
        pytest.param(f"{PRINTS}; kill -SEGV $$", "signal|exit code", id="prints and crashes"),
        pytest.param(f"{PRINTS}; exit 4", "exit code 4", id="prints and fails"),
        pytest.param(f"{WRITES} 0 > {LEFT_ALONE}", "not for this question", id="another nonce"),
        pytest.param(f"echo half > {LEFT_ALONE}", "no JSON", id="half an answer"),
        pytest.param(f"cp request.json {LEFT_ALONE}", "lacks a reason", id="the request itself"),
        pytest.param(f"ln -s request.json {LEFT_ALONE}", "left no answer", id="a link"),
        pytest.param(f"mkdir {LEFT_ALONE}", "left no answer", id="a folder"),
        pytest.param(f"mkfifo {LEFT_ALONE}", "left no answer", id="a pipe"),
        pytest.param(f"(sleep 1; {WRITES} 0 > {LEFT_ALONE}) & exit 0", "left no answer", id="an answer too late"),
        pytest.param("yes", "ran into the output limit", id="a flood"),
        pytest.param(f"{WRITES} 0 > {LEFT_ALONE}; while :; do :; done", "ran into the (CPU|wall)", id="never ends"),
    ],
)
def test_a_judge_without_a_whole_answer_gives_no_verdict(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    checker.judge_limits = LIMITS.model_copy(update={"cpu_s": 1.0, "wall_s": 120.0})
    with pytest.raises(AssertionError if not why else ValueError, match=why):
        raise ValueError(answer(checker, monkeypatch, script))


def test_the_judge_gets_both_modules_and_a_nonce_of_its_own(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = 'cat Challenge.olean Solution.olean request.json > seen; [ "$(wc -c < seen)" -gt 100 ] && cp seen answer.json'
    monkeypatch.setattr(judging, "judge_source", lambda: script)
    seen = []
    monkeypatch.setattr(judging, "read_answer", lambda content, *rest: seen.append((content, rest)) or None)
    for _ in range(2):
        checker._judge(REFERENCE, {"Challenge.olean": b"<challenge>"}, {"Solution.olean": b"<solution>"})
    (first, (code, nonce, allowed)), (second, (_, other, _)) = seen
    assert first.startswith(b"<challenge><solution>{") and nonce.encode() in first and code == 0
    assert nonce != other and len(nonce) == 32 and allowed == REFERENCE.allowed_axioms
    assert other.encode() in second


def test_a_statement_that_does_not_compile_is_the_tasks_fault(checker: Checker) -> None:
    """No shell takes a theorem, as no Lean takes a statement with a mistake."""
    with pytest.raises(EnvironmentFailure, match="the statement of 'target' does not compile with Lean 4.0.0") as caught:
        checker.check(REFERENCE, "rfl")
    assert caught.value.kind == "gold_invalid"


@needs("bubblewrap")
def test_a_checker_that_always_crashes_blames_nobody(tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    tmp_path.chmod(0o755)
    broken = Checker(LeanBox(Toolchain(str(crash), "4.0.0", "", (), (str(tmp_path),), "key"), workers=1), LIMITS)
    with pytest.raises(EnvironmentFailure, match="alone runs into its limits .crash.*overloaded") as caught:
        broken.check(REFERENCE, "rfl")
    assert caught.value.kind == "unavailable" and caught.value.retryable
