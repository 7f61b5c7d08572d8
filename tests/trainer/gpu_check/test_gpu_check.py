"""`verigym gpu-check`: the checks themselves, on the CPU, and what becomes of one that breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from verigym.cli import main
from verigym.exit_codes import ExitCode
from verigym.trainer.gpu_check import job
from verigym.trainer.gpu_check.checks import CHECKS, Broken, compared
from verigym.trainer.gpu_check.job import Finding, run_checks
from verigym.trainer.gpu_check.runs import TOLERANCE, differences, share_equal

GPU = {"gpu": "a GPU", "gpus": 1}


def test_figures_are_compared_and_a_missing_one_is_infinitely_off() -> None:
    found = differences({"loss": 2.0, "kl": 1.0, "step_s": 1.0}, {"loss": 2.0 * (1 + TOLERANCE), "step_s": 9.0})
    assert found == {"loss": pytest.approx(1.0, rel=0.01), "kl": float("inf")}
    assert share_equal([("a", "b"), ("c",)], [("a", "x"), ("c",)]) == pytest.approx(2 / 3)


@pytest.mark.slow
def test_a_run_with_other_texts_is_broken(tmp_path: Path) -> None:
    assert compared(tmp_path / "same", "cpu", {"plain": {"steps": 1}})["worst_of_tolerance"] == 0
    with pytest.raises(Broken, match=r"1 of 1 runs differ .*'plain': 'other texts"):
        compared(tmp_path / "other", "cpu", {"plain": {"steps": 1}}, seed=1)


def test_what_is_lacking_is_not_tested() -> None:
    few, absent = list(run_checks(["nccl"], gpus=1)) + list(run_checks(["graphs"], gpus=0))
    assert (few.outcome, few.why) == ("not tested", "2 GPUs are needed, and there are 1")
    assert absent.outcome == "not tested"


@pytest.mark.slow
def test_a_check_that_breaks_says_why_and_one_that_never_ends_is_stopped() -> None:
    [broken] = run_checks(["graphs"], gpus=0, device="cpu")
    assert broken.outcome == "broken" and "cuda_graphs: true needs device cuda" in broken.why
    assert "Traceback" in broken.log
    [late] = run_checks(["learning"], gpus=0, device="cpu", limit_s=0.5)
    assert (late.outcome, late.why) == ("broken", "it took longer than 0.5 s")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("runs", marks=needs("peft")),
        "learning",
        "resume",
        "overlap",
        "stages",
        "nccl",
        pytest.param("eight_bits", marks=needs("bitsandbytes", "peft")),
    ],
)
def test_a_check_holds_on_the_cpu(name: str) -> None:
    """What a check does is right where nothing can differ; nccl is gloo here."""
    [found] = run_checks([name], gpus=0, device="cpu")
    assert found.outcome == "holds", found.why + found.log
    assert found.figures and found.claim == CHECKS[name].claim


def test_without_a_gpu_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(job, "machine", lambda: {"gpus": 0})
    assert main(["gpu-check", "--out", str(tmp_path / "report.json")]) == ExitCode.USAGE
    assert "torch sees no CUDA device here" in capsys.readouterr().err
    assert main(["gpu-check", "--only", "speed"]) == ExitCode.USAGE
    assert "there is no check 'speed'; there are rates, runs," in capsys.readouterr().err


@pytest.mark.parametrize("outcome", ["holds", "broken"])
def test_the_report_is_there_after_each_check(
    outcome: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    report, seen = tmp_path / "report.json", []

    def checked(names: Sequence[str], gpus: int) -> Iterator[Finding]:
        assert gpus == 1
        for name in names:
            yield Finding(name, "it must hold", outcome, 1.0, {"tokens_s": 7.5})
            seen.append(len(json.loads(report.read_text())["findings"]))

    monkeypatch.setattr(job, "machine", lambda: GPU)
    monkeypatch.setattr(job, "run_checks", checked)
    code = main(["gpu-check", "--out", str(report), "--only", "rates", "--only", "graphs", "--json"])
    assert code == (ExitCode.OK if outcome == "holds" else ExitCode.FAILED)
    assert seen == [1, 2]
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(report.read_text())
    assert [row["name"] for row in printed["findings"]] == ["rates", "graphs"] and printed["machine"]["gpus"] == 1
    assert printed["machine"]["versions"]["verigym"]


@pytest.mark.slow
def test_the_machine_is_described_by_versions_and_no_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "of-a-user"))
    monkeypatch.setenv("USER", "of-a-user")
    about = job.machine()
    assert about["torch"] and about["gpus"] >= 0
    assert "of-a-user" not in json.dumps(about)
