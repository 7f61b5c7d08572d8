"""A run killed with SIGKILL and started again ends with the same bytes as one that was left alone.

`VERIGYM_RESUME_TRIES=5` runs more tries than the suite has time for.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import HANG_S
from warm_python import warm_python

SCRIPT = Path(__file__).parent.parent / "support/run_letters.py"
STEPS = 8
TRIES = int(os.environ.get("VERIGYM_RESUME_TRIES", "1"))


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def command(folder: Path, model: Path, *more: str, **changed: Any) -> list[str]:
    folder.mkdir(exist_ok=True)
    config = {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [{"environment": "letters"}],
        "seed": 5,
        "steps": STEPS,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 12,
        "learning_rate": 1e-3,
        "kl_coef": 0.01,
        "reference_every": 3,
        "updates_per_step": 2,
        "checkpoint_every": 2,
        "eval_every": 3,
        "eval_prompts": 4,
        "threads": 1,
        "workers": 1,
        "device": "cpu",
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config | changed))
    return [*warm_python(), str(SCRIPT), str(path), *more]


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "out/final/model.safetensors").read_bytes()).hexdigest()


def metrics(folder: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    # As users start it, so that it hashes strings otherwise than the runs that are compared with it.
    whole = [sys.executable, *command(folder, model_folder)[len(warm_python()) :]]
    subprocess.run(whole, check=True, capture_output=True, timeout=HANG_S)
    return folder


@pytest.mark.slow
def test_the_run_changes_the_weights(uninterrupted: Path, model_folder: Path) -> None:
    assert weights(uninterrupted) != hashlib.sha256((model_folder / "model.safetensors").read_bytes()).hexdigest()
    trained = [row for row in metrics(uninterrupted) if row["kind"] == "train"]
    assert len(trained) == STEPS
    assert all(row["grad_norm"] > 0 for row in trained)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(TRIES))
def test_killed_at_any_step_it_ends_with_the_same_bytes(
    attempt: int, uninterrupted: Path, model_folder: Path, tmp_path: Path
) -> None:
    target = random.Random(f"kill/{attempt}").randint(1, STEPS - 1)
    died = subprocess.run(command(tmp_path, model_folder, f"step-{target}"), capture_output=True, timeout=HANG_S)
    assert died.returncode == -signal.SIGKILL, died.stderr[-500:]
    assert len([row for row in metrics(tmp_path) if row["kind"] == "train"]) == target
    assert not (tmp_path / "out/final").exists()
    subprocess.run(command(tmp_path, model_folder), check=True, capture_output=True, timeout=HANG_S)
    assert weights(tmp_path) == weights(uninterrupted)
    assert metrics(tmp_path) == metrics(uninterrupted)


@pytest.mark.slow
def test_killed_before_the_first_step_that_asks_for_one_it_resumes_from_a_checkpoint_made_by_time(
    uninterrupted: Path, model_folder: Path, tmp_path: Path
) -> None:
    run = command(tmp_path, model_folder, "renamed", checkpoint_every=100, checkpoint_minutes=1e-6)
    died = subprocess.run(run, capture_output=True, timeout=HANG_S)
    assert died.returncode == -signal.SIGKILL, died.stderr[-500:]
    found = [path for path in (tmp_path / "out/checkpoints").iterdir() if path.name.startswith("step-")]
    states = {path.name: json.loads((path / "state.json").read_text())["by_time"] for path in found}
    assert states and all(states.values())
    again = subprocess.run(run[:-1], check=True, capture_output=True, text=True, timeout=HANG_S)
    assert "resuming from step" in again.stderr and "starting again" not in again.stderr
    assert weights(tmp_path) == weights(uninterrupted)
    assert metrics(tmp_path) == metrics(uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["tensors", "manifest", "renamed"])
def test_killed_while_a_checkpoint_is_written(moment: str, uninterrupted: Path, model_folder: Path, tmp_path: Path) -> None:
    died = subprocess.run(command(tmp_path, model_folder, moment), capture_output=True, timeout=HANG_S)
    assert died.returncode == -signal.SIGKILL, died.stderr[-500:]
    found = sorted(path.name for path in (tmp_path / "out/checkpoints").iterdir())
    expected = {
        "tensors": [".partial-step-00000004", "step-00000002"],
        "manifest": [".partial-step-00000004", "step-00000002"],
        "renamed": ["step-00000002", "step-00000004", "step-00000006"],
    }
    assert found == expected[moment]
    subprocess.run(command(tmp_path, model_folder), check=True, capture_output=True, timeout=HANG_S)
    assert weights(tmp_path) == weights(uninterrupted)
