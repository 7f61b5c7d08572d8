"""The main job in small: every stage runs, what it says is what it measured, and the same call goes on where it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verigym import cli
from verigym.envs import UsageError
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.stages import quickstart as quickstart_module
from verigym.trainer.stages.quickstart import GATED, TASKS, Result, Sizes, quickstart

SIZES = Sizes(
    cold_start_steps=2,
    cold_start_batch=4,
    grpo_steps=2,
    prompts_per_step=4,
    group_size=2,
    eval_prompts=3,
    eval_every=1,
)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstart") / "runs" / "one"


@pytest.fixture(scope="module", autouse=True)
def graded_here() -> Iterator[None]:
    """Grade in this process: workers change nothing but the time."""
    with pytest.MonkeyPatch.context() as patch:
        made = quickstart_module._config
        patch.setattr(quickstart_module, "_config", lambda *given: made(*given).model_copy(update={"workers": 0}))
        yield


@pytest.fixture(scope="module")
def first(output: Path) -> Result:
    return quickstart(output, 3, SIZES, threads=1)


def contents(output: Path) -> dict[str, bytes]:
    names = ("cold_start/model.safetensors", "grpo/final/model.safetensors", "grpo/metrics.jsonl", "grpo/samples.jsonl")
    return {name: (output / name).read_bytes() for name in names}


def test_the_result_is_what_was_measured(first: Result, output: Path) -> None:
    evaluations = [row for row in read_rows(output / "grpo/metrics.jsonl") if row["kind"] == "eval"]
    assert [row["step"] for row in evaluations] == [0, 1, 2]
    assert (first.cold_start, first.grpo) == (evaluations[0]["accuracy"], evaluations[-1]["accuracy"])
    assert all(0 <= value <= 1 for value in (first.untrained, first.cold_start, first.grpo))
    assert 0 < first.seconds < 600
    for row in evaluations:
        assert all(row[f"{name}/unscored"] == 0 and 0 <= row[f"{name}/accuracy"] <= 1 for name in TASKS)


def test_the_mixture_has_several_kinds_of_tasks_with_and_without_a_gate() -> None:
    assert len(TASKS) >= 3
    assert set() < set(GATED) < set(TASKS)


def test_every_file_that_it_names_is_there(first: Result, output: Path) -> None:
    assert first.curves.read_bytes().startswith(b"\x89PNG")
    page = first.samples.read_text(encoding="utf-8")
    assert "held-out accuracy after GRPO" in page
    assert all(f"<td>{name}</td>" in page for name in TASKS)
    for folder in ("cold_start", "grpo/final"):
        assert (output / folder / "model.safetensors").exists()
        assert (output / folder / "tokenizer.json").exists()
    assert not list(output.glob(".*")), "nothing half-made is left"
    steps = [row for row in read_rows(output / "grpo/metrics.jsonl") if row["kind"] == "train"]
    assert [row["step"] for row in steps] == [1, 2]


@pytest.mark.slow
def test_called_again_it_trains_nothing_and_says_the_same(
    first: Result, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(output)
    again = quickstart(output, 3, SIZES, threads=1)
    assert replace(again, seconds=first.seconds) == first
    assert contents(output) == before
    out = capsys.readouterr().out
    found = dict(re.findall(r"^([a-zA-Z, -]+?) {2,}([-+.\d]+)$", out, re.MULTILINE))
    assert float(found["held-out accuracy, untrained"]) == pytest.approx(first.untrained, abs=5e-4)
    assert float(found["held-out accuracy after the cold start"]) == pytest.approx(first.cold_start, abs=5e-4)
    assert float(found["held-out accuracy after GRPO"]) == pytest.approx(first.grpo, abs=5e-4)
    assert float(found["gain from GRPO"]) == pytest.approx(first.grpo - first.cold_start, abs=1.1e-3)
    rewards = [row["reward"] for row in read_rows(output / "grpo/metrics.jsonl") if row["kind"] == "train"]
    assert f"mean reward, first and last 10 steps     {sum(rewards) / 2:.3f} {sum(rewards) / 2:.3f}\n" in out
    assert f"curves: {first.curves}" in out


@pytest.mark.slow
def test_stopped_after_the_cold_start_it_keeps_that(first: Result, output: Path, tmp_path: Path) -> None:
    (tmp_path / "cold_start").mkdir()
    for path in (output / "cold_start").iterdir():
        (tmp_path / "cold_start" / path.name).write_bytes(path.read_bytes())
    resumed = quickstart(tmp_path, 3, SIZES, threads=1)
    assert (resumed.untrained, resumed.cold_start, resumed.grpo) == (first.untrained, first.cold_start, first.grpo)
    for name in ("cold_start/model.safetensors", "grpo/final/model.safetensors"):
        assert (tmp_path / name).read_bytes() == (output / name).read_bytes()


@pytest.mark.parametrize("change", [{"seed": 4}, {"sizes": replace(SIZES, cold_start_steps=3)}])
def test_another_seed_or_size_does_not_go_on_from_this_one(change: dict[str, Any], first: Result, output: Path) -> None:
    before = contents(output)
    with pytest.raises(UsageError, match="new folder"):
        quickstart(**{"output": output, "seed": 3, "sizes": SIZES, **change})
    assert contents(output) == before


def test_a_folder_that_cannot_be_used_is_said_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["quickstart", "--output", str(tmp_path / "file")]) == 2
    assert re.search(r"^error: output: .*/file' cannot be used as a folder", capsys.readouterr().err, re.MULTILINE)


@pytest.mark.slow
def test_the_cold_start_shows_the_time_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verigym.trainer.monitoring.progress.PLAIN_EVERY_S", 0.0)
    quickstart(tmp_path, 3, replace(SIZES, cold_start_steps=30, cold_start_batch=1, grpo_steps=1), threads=1)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("cold start step")]
    assert re.fullmatch(r"cold start step 1 of 30: loss \d\.\d{3}  \d+\.\d\d s a step, \d+ (s|min) left", lines[0])
    assert lines[-1].startswith("cold start step 30 of 30: ")


def test_the_help_says_that_fewer_steps_leave_the_cold_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["quickstart", "--help"]) == 0
    told = " ".join(re.sub(r"[^\w ,.-]", " ", capsys.readouterr().out).split())
    assert f"{Sizes().grpo_steps} by default" in told
    assert f"cold start before them stays at {Sizes().cold_start_steps} supervised steps" in told


def test_the_untrained_accuracy_is_kept_with_what_made_it(first: Result, output: Path) -> None:
    note = json.loads((output / "cold_start/untrained.json").read_text())
    assert note["accuracy"] == first.untrained
    assert note["made_with"]["seed"] == 3
