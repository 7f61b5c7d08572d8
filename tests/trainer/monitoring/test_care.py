"""What looks after a run, in the run itself: warnings in the log, stops, bad batches kept, times of the phases."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train
from verigym.trainer.stopwatch import Stopwatch

LETTERS = {"letters": LettersEnvironment()}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def run(model: Path, output: Path, **more: Any) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "letters"}],
        "steps": 4,
        "prompts_per_step": 2,
        "group_size": 4,
        "max_new_tokens": 6,
        "warmup_steps": 0,
        "eval_every": 0,
        "workers": 0,
        "device": "cpu",
    }
    train(build_config(fields | more, "test"), LETTERS)
    return rows(output)


def rows(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def untimed(output: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows(output)]


# An untrained model gets no arithmetic right: every group has equal rewards.
DEAD = {"sources": [{"environment": "arithmetic"}], "dead_run_steps": 3}


def test_a_dead_run_goes_on_with_a_warning(model_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = run(model_folder, tmp_path, **DEAD)
    assert [(row["step"], row["kind"]) for row in found] == [
        (1, "train"), (2, "train"), (3, "train"), (3, "warning"), (4, "train"),
    ]  # fmt: skip
    warning = found[3]
    assert (warning["name"], warning["since"], warning["stop"]) == ("dead_run", 1, False)
    assert "easier tasks" in warning["advice"]
    assert "step 3: dead_run: no reward has given a gradient" in caplog.text


def test_a_dead_run_stops_on_request_and_can_go_on(model_folder: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second call goes on from the checkpoint of step 2, and knows that step 1 was dead, too
        with pytest.raises(UsageError, match="training stopped at step 3: dead_run.*since step 1"):
            run(model_folder, tmp_path, **DEAD, on_dead_run="stop", checkpoint_every=2)
    assert not (tmp_path / "final").exists()
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 3, 3]
    run(model_folder, tmp_path, **DEAD, on_dead_run="warn", checkpoint_every=2)
    run(model_folder, tmp_path / "whole", **DEAD)
    assert untimed(tmp_path) == untimed(tmp_path / "whole")


def poisoned(monkeypatch: pytest.MonkeyPatch, updates: range) -> None:
    """Put a nan into the gradient of the updates with these numbers, counted from 1."""
    calls: list[int] = []
    real = torch.nn.utils.clip_grad_norm_

    def clip(parameters: Any, bound: float) -> torch.Tensor:
        calls.append(1)
        parameters = list(parameters)
        if len(calls) in updates:
            parameters[0].grad[0] = float("nan")
        return real(parameters, bound)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)


def test_a_bad_update_is_kept_for_a_person(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned(monkeypatch, range(2, 3))
    found = run(model_folder, tmp_path)
    assert [row["grad_norm"] is None for row in found] == [False, True, False, False]
    assert sorted(path.name for path in (tmp_path / "bad_batches").iterdir()) == [
        "step-00000002.json", "step-00000002.safetensors",
    ]  # fmt: skip
    page = json.loads((tmp_path / "bad_batches/step-00000002.json").read_text())
    assert page["metrics"]["grad_norm"] == "nan"
    assert len(page["rows"]) == 8
    assert page["rows"][0]["prompt"].startswith("train 0 ")
    assert not (tmp_path / "fine/bad_batches").exists()


def test_bad_updates_in_a_row_stop_the_run(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned(monkeypatch, range(2, 99))
    with pytest.raises(UsageError, match="training stopped at step 3: not_finite: .* for 2 steps in a row, since step 2"):
        run(model_folder, tmp_path, max_bad_steps=2)
    assert [(row["step"], row["kind"]) for row in rows(tmp_path)][-1] == (3, "warning")


def test_an_absent_logger_is_said_before_anything_is_loaded(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(UsageError, match="`pip install wandb`"):
        run(model_folder, tmp_path / "out", loggers=["wandb"])
    assert not (tmp_path / "out").exists()
    run(model_folder, tmp_path / "plain", loggers=[], steps=1)
    assert not (tmp_path / "plain/tensorboard").exists()


def test_phases_are_timed_and_samples_have_advantages(model_folder: Path, tmp_path: Path) -> None:
    found = run(model_folder, tmp_path, eval_every=2, eval_prompts=2, checkpoint_every=2, samples_per_step=2)
    train_rows = [row for row in found if row["kind"] == "train"]
    for row in train_rows:
        assert 0 < row["generate_s"] + row["grade_wait_s"] <= row["generate_grade_s"]
        assert 0 < row["generate_grade_s"] + row["update_s"] <= row["step_s"]
        assert row["completions"] == 8
    # What comes after a step's row is in the next one.
    assert ["evaluate_s" in row for row in train_rows] == [True, False, True, False]
    assert ["checkpoint_s" in row for row in train_rows] == [False, False, True, False]
    samples = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    trained = [row for row in samples if row["kind"] == "train"]
    assert len(trained) == 8
    assert any(row["advantage"] != 0 for row in trained)
    assert all((row["advantage"] > 0) == (row["reward"] == 1) for row in trained if row["advantage"] != 0)
    assert all("advantage" not in row for row in samples if row["kind"] == "eval")


def test_a_stopwatch_adds_up_and_starts_again() -> None:
    clock = Stopwatch()
    for _ in range(3):
        with clock("a"):
            pass
    with pytest.raises(KeyError), clock("b"):
        raise KeyError
    seconds = clock.take()
    assert set(seconds) == {"a_s", "b_s"}
    assert all(value > 0 for value in seconds.values())
    assert clock.take() == {}
