"""SIGTERM at any moment of a run: what it says, its exit code, and the same bytes in the end.

`VERIGYM_SIGNAL_TRIES=10` tries more moments than the suite has time for, and `VERIGYM_SIGNAL_SEED` others.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from patience import HANG_S, stands_still, wait_for
from runs import settings, weights
from warm_python import warm_python

from verigym.trainer.rng import keyed_random

CLI = Path(__file__).parent.parent / "support/cli_letters.py"
STEPS = 8
TRIES = int(os.environ.get("VERIGYM_SIGNAL_TRIES", "1"))
SEED = os.environ.get("VERIGYM_SIGNAL_SEED", "0")


def command(model: Path, folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    fields = settings(
        model,
        folder / "out",
        steps=STEPS,
        prompts_per_step=8,
        max_new_tokens=48,
        dynamic_sampling=True,
        curriculum=True,
        replay_share=0.25,
        kl_coef=0.01,
        updates_per_step=2,
        checkpoint_every=100,
        eval_every=2,
        eval_prompts=16,
        threads=1,
        workers=1,
    )
    path = folder / "run.yaml"  # JSON is YAML
    path.write_text(json.dumps(fields))
    return [sys.executable, str(CLI), "train", "--config", str(path)]


def lines(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows]


def samples(folder: Path) -> str:
    return hashlib.sha256((folder / "out/samples.jsonl").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, letters_model: Path) -> Path:
    """A run that was left alone."""
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run([*warm_python(), *command(letters_model, folder)[1:]], check=True, capture_output=True, timeout=HANG_S)
    return folder


def seconds_a_step(folder: Path) -> float:
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return fmean(row["step_s"] for row in rows if row["kind"] == "train")


def trained(log: Path) -> int:
    return log.read_text().count('"train"') if log.exists() else 0


def moment(attempt: int) -> tuple[int, float]:
    """Return a moment of the run: so many finished steps, and the part of a step that is waited after them."""
    drawn = keyed_random("SIGTERM", SEED, attempt).random() * STEPS
    return int(drawn), drawn % 1


def terminated(run: list[str], log: Path, after: int, pause_s: float) -> tuple[int, str, int]:
    """Send SIGTERM a pause after so many steps are logged; return exit code, stderr and how many were logged by then."""
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: trained(log) >= after, process)
        time.sleep(pause_s)
        process.send_signal(signal.SIGSTOP)  # nothing goes on between the look at the log and the signal
        wait_for(lambda: stands_still(process.pid) or process.poll() is not None)
        logged = trained(log)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=HANG_S)
        return process.returncode, err, logged
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(TRIES))
def test_sigterm_at_any_moment(attempt: int, whole: Path, letters_model: Path, tmp_path: Path) -> None:
    run = command(letters_model, tmp_path)
    after, part = moment(attempt)
    code, err, logged = terminated(run, tmp_path / "out/metrics.jsonl", after, part * seconds_a_step(whole))
    assert "Traceback" not in err
    if code == 0:  # on a busy machine the signal may come when nothing is left to do but the final model
        assert f"of {STEPS} steps were scored" in err
        assert weights(tmp_path / "out/final") == weights(whole / "out/final") and lines(tmp_path) == lines(whole)
        return
    assert code == 143, err
    last = err.splitlines()[-1]
    checkpoints = sorted(path.name for path in (tmp_path / "out/checkpoints").glob("*"))
    done = int(checkpoints[-1].removeprefix("step-")) if checkpoints else 0
    print(f"moment {attempt}: {after} steps and {part:.2f} of one; {logged} logged: {last}")
    told = f"after step {done} of {STEPS}" if done else "before the first step"
    if done == STEPS and (tmp_path / "out/final").exists():  # on a busy machine the signal may come after the last step
        told = "before its report was written"
    assert last.endswith(f"stopped {told}; go on with the same command")
    assert done >= after - 1, "a step that was logged is kept"
    assert done <= logged + 1, "at most the step that is running is ended"
    assert done == STEPS or not (tmp_path / "out/final").exists()

    again = subprocess.run([*warm_python(), *run[1:]], capture_output=True, text=True, timeout=HANG_S)
    assert again.returncode == 0, again.stderr
    assert weights(tmp_path / "out/final") == weights(whole / "out/final") != weights(letters_model)
    assert lines(tmp_path) == lines(whole)
    assert samples(tmp_path) == samples(whole)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(TRIES))
def test_sigterm_while_torch_is_loaded(attempt: int, letters_model: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(command(letters_model, tmp_path), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "loading torch and transformers\n"
    time.sleep(1.5 * keyed_random("SIGTERM while loading", SEED, attempt).random())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, err) == (143, "SIGTERM: stopped before the first step; go on with the same command\n")
