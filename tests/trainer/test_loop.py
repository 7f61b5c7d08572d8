"""The loop as a whole: what a run writes, what it says, and what Ctrl-C does."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from patience import HANG_S, stands_still, wait_for
from runs import rows, run, settings, weights
from warm_python import warm_python

from verigym.trainer.checkpoints.run_record import command_line
from verigym.trainer.learner import learner
from verigym.trainer.learner.update import accumulate
from verigym.trainer.models.loading import load_model

CLI = Path(__file__).parent / "support/cli_letters.py"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_run_changes_the_weights_and_keeps_them_in_fp32(dtype: str, letters_model: Path, tmp_path: Path) -> None:
    found = run(letters_model, tmp_path, dtype=dtype, eval_every=2, eval_prompts=4)
    assert [(row["step"], row["kind"]) for row in found] == [
        (0, "eval"), (1, "train"), (2, "train"), (2, "eval"), (3, "train"), (3, "eval"),
    ]  # fmt: skip
    assert all(row["grad_norm"] > 0 for row in found if row["kind"] == "train")
    assert weights(tmp_path / "final") != weights(letters_model)
    model, _ = load_model(tmp_path / "final", torch.device("cpu"))
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert json.loads((tmp_path / "final/config.json").read_text())["dtype"] == "float32"
    # What was sampled under one precision is trained under the same: the gap is that of rounding.
    gaps = [row["logprob_mismatch"] for row in found if row["kind"] == "train"]
    assert max(gaps) < (0.1 if dtype == "bf16" else 1e-4)


def test_the_same_run_twice_gives_the_same_bytes_and_another_seed_others(letters_model: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.manual_seed(len(name) + seed)
        run(letters_model, tmp_path / name, seed=seed, steps=2)
    a, b, c = (weights(tmp_path / name / "final") for name in "abc")
    assert a == b
    assert a != c


def test_a_finished_run_is_not_run_again(letters_model: Path, tmp_path: Path) -> None:
    first = run(letters_model, tmp_path)
    before = weights(tmp_path / "final")
    assert run(letters_model, tmp_path) == first, "even the times are those of the first run"
    assert weights(tmp_path / "final") == before
    longer = run(letters_model, tmp_path, steps=4)
    assert longer[:3] == first
    assert len(longer) == 4


def test_each_start_of_a_run_is_recorded(letters_model: Path, tmp_path: Path) -> None:
    run(letters_model, tmp_path)
    run(letters_model, tmp_path, steps=4)
    first, second = json.loads((tmp_path / "run.json").read_text())["starts"]
    assert (first["from_step"], second["from_step"]) == (0, 3)
    assert first["command"] == command_line()
    assert first["versions"]["torch"] == torch.__version__
    assert first["made_with"]["group_size"] == 4 and first["made_with"]["graders"]["letters"].startswith("letters@1")
    assert "model model.safetensors" in first["inputs"] and first["inputs"] == second["inputs"]


def test_the_divergence_from_the_initial_model_is_measured(letters_model: Path, tmp_path: Path) -> None:
    found = run(letters_model, tmp_path / "kl", kl_coef=0.1)
    assert found[0]["kl"] == pytest.approx(0, abs=1e-6), "at first the policy is the reference"
    assert found[2]["kl"] > 1e-3
    free = run(letters_model, tmp_path / "free")
    assert "kl" not in free[0]
    assert weights(tmp_path / "kl/final") != weights(tmp_path / "free/final")


@pytest.mark.parametrize("truncated", ["score", "mask"])
def test_truncated_completions_are_masked_where_the_settings_say_so(
    truncated: str, letters_model: Path, tmp_path: Path
) -> None:
    found = run(letters_model, tmp_path, truncated=truncated, steps=1)
    for row in found:
        cut = round(row["truncated"] * 16)
        assert 0 < cut < 16
        assert row["trained_rows"] == (16 - cut if truncated == "mask" else 16)


def test_a_gradient_that_is_not_finite_is_left_out(
    letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def poisoned(model: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
        parts = accumulate(model, *args, **kwargs)
        calls.append(1)
        if len(calls) == 2:
            model.model.norm.weight.grad.fill_(float("nan"))
        return parts

    monkeypatch.setattr(learner, "accumulate", poisoned)
    with caplog.at_level(logging.WARNING):
        found = run(letters_model, tmp_path, checkpoint_every=1, keep_checkpoints=3)
    assert len(calls) == 3
    assert "step 2: the gradient is not finite" in caplog.text
    assert [row["grad_norm"] is not None for row in found] == [True, False, True]
    one, two, three = (weights(tmp_path / f"checkpoints/step-0000000{step}/model") for step in (1, 2, 3))
    assert one == two
    assert two != three


def test_nothing_to_learn_from_leaves_the_weights_alone(letters_model: Path, tmp_path: Path) -> None:
    found = run(letters_model, tmp_path, sources=[{"environment": "arithmetic"}])
    assert all(row["groups_without_signal"] == 1 and row["rows_with_gradient"] == 0 for row in found)
    assert all(row["rows_with_advantage"] == 0 for row in found)
    assert all("loss" not in row for row in found)
    assert weights(tmp_path / "final") == weights(letters_model)


def interrupt(
    command: list[str], after: int, number: int = signal.SIGINT, group: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run, press Ctrl-C once so many steps are logged, and wait. The terminal sends it to the whole process group."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "STAND_STILL_AT": str(after)},
    )
    try:
        wait_for(lambda: stands_still(process.pid), process)
        (os.killpg if group else os.kill)(process.pid, number)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=HANG_S)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "group", "code"), [(signal.SIGINT, True, 130), (signal.SIGUSR1, False, 143)], ids=["ctrl-c", "warned"]
)
def test_asked_to_stop_it_ends_the_step_and_the_same_command_goes_on(
    number: int, group: bool, code: int, letters_model: Path, tmp_path: Path
) -> None:
    common = {"steps": 6, "threads": 1, "workers": 1, "checkpoint_every": 100, "eval_every": 100, "eval_prompts": 2}
    run(letters_model, tmp_path / "whole", **common)
    path = tmp_path / "stopped.yaml"  # JSON is YAML
    path.write_text(json.dumps(settings(letters_model, tmp_path / "stopped", **common)))
    command = [sys.executable, str(CLI), "train", "--config", str(path)]

    stopped = interrupt(command, 2, number, group)
    assert stopped.returncode == code, stopped.stderr
    assert stopped.stdout == ""
    assert "stopping after this step" in stopped.stderr
    assert "go on with the same command" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert "error" not in stopped.stderr, "a stop is no mistake, and is told once"
    assert not (tmp_path / "stopped/final").exists()
    (checkpoint,) = (tmp_path / "stopped/checkpoints").iterdir()
    done = int(checkpoint.name.removeprefix("step-"))
    assert done in (2, 3)
    assert f"stopped after step {done} of 6" in stopped.stderr
    assert rows(tmp_path / "stopped")[-1]["step"] == done

    resumed = subprocess.run([*warm_python(), *command[1:]], capture_output=True, text=True, timeout=HANG_S)
    assert resumed.returncode == 0, resumed.stderr
    assert f"final model: {tmp_path / 'stopped/final'}\n" in resumed.stdout
    assert weights(tmp_path / "stopped/final") == weights(tmp_path / "whole/final") != weights(letters_model)
    logs = [
        [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows(tmp_path / folder)]
        for folder in ("whole", "stopped")
    ]
    assert logs[0] == logs[1]
    assert [row["step"] for row in logs[0]] == [0, *range(1, 7), 6]
