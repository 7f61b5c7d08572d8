"""With everything on that has a state, a run that is killed again and again ends with the bytes of one that was left alone.

Dynamic sampling, curriculum, replay, adapters, KL, several updates and epochs, an advantage of its own for each source; and the
same with the next step sampled during the update. One
run is killed `VERIGYM_KILLS` times, 3 by default; where, is drawn by hash over the length of the run.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from parts import ENVIRONMENTS
from patience import HANG_S

from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train
from verigym.trainer.rng import keyed_random

SCRIPT = Path(__file__).parent.parent / "support/run_everything.py"
STEPS = 10
KILLS = int(os.environ.get("VERIGYM_KILLS", "3"))
STEP_S, WRITING_S = 0.25, 0.02
"""About how long a step and the writing of a checkpoint take: the width over which kills are spread."""


def moments(kills: int, key: str) -> list[dict[str, Any]]:
    """Where to kill, in order, with two steps left at least: every other time while a checkpoint is written."""
    draw = keyed_random("kill", key)
    steps = sorted(draw.randint(0, STEPS - 3) for _ in range(kills))
    found = []
    for number, step in enumerate(steps):
        writing = number % 2 == 1
        delay = draw.uniform(0, WRITING_S if writing else STEP_S)
        found.append({"steps": step, "in_checkpoint": writing, "delay_s": round(delay, 6)})
    return found


def settings(folder: Path, model: Path, overlap: str) -> dict[str, Any]:
    parts = {"even": 1.0, "early": 0.5, "overlong": 0.5}
    return {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [
            {"environment": "letters", "name": "a", "weight": 3, "advantage": "rloo"},
            {"environment": "letters", "name": "b", "min_share": 0.2},
            {"environment": "parts", "name": "c", "weight": 2, "advantage": "gdpo", "reward_weights": parts},
        ],
        "seed": 6,
        "steps": STEPS,
        "prompts_per_step": 6,
        "group_size": 4,
        "max_new_tokens": 8,
        "learning_rate": 0.01,
        "schedule": "cosine",
        "warmup_steps": 2,
        "lora_rank": 4,
        "kl_coef": 0.02,
        "reference_every": 4,
        "entropy_coef": 0.001,
        "updates_per_step": 2,
        "epochs_per_step": 2,
        "dynamic_sampling": True,
        "max_oversampling": 4,
        "curriculum": True,
        "hard_share": 0.4,
        "replay_share": 0.34,
        "replay_below": 0.5,
        "overlap": overlap,
        "overlong_cache": 4,
        "checkpoint_every": 2,
        "eval_every": 4,
        "eval_prompts": 3,
        "loggers": [],
        "threads": 1,
        "workers": 1,
        "device": "cpu",
    }


def state(folder: Path) -> dict[str, Any]:
    """Everything that a run leaves behind, times left out."""
    out = folder / "out"
    last = out / f"checkpoints/step-{STEPS:08d}"
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    manifest = json.loads((last / "state.json").read_text())
    del manifest["files"]["work.json"]
    return {
        "weights and optimizer": manifest,
        "work": _without_times(json.loads((last / "work.json").read_text())),
        "final": (out / "final/model.safetensors").read_bytes(),
        "adapter": (out / "final/adapter/adapter_model.safetensors").read_bytes(),
        "metrics": [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows],
        "samples": (out / "samples.jsonl").read_text(),
    }


def _without_times(value: Any) -> Any:
    """How long a verdict took is kept with it."""
    if isinstance(value, dict):
        return {name: _without_times(part) for name, part in value.items() if name != "seconds"}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    """A model that one token in eight ends, so that lengths differ."""
    folder = tmp_path_factory.mktemp("model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["none", "one_step"])
def overlap(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, overlap: str) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    train(build_config(settings(folder, model_folder, overlap), "test"), ENVIRONMENTS)
    return state(folder)


@pytest.mark.slow
def test_everything_is_used(whole: dict[str, Any]) -> None:
    rows = [row for row in whole["metrics"] if row["kind"] == "train"]
    assert len(rows) == STEPS
    for name in ("leftovers_used", "replayed_groups", "curriculum_easy", "curriculum_hard", "kl", "entropy", "clip_fraction"):
        assert sum(row[name] for row in rows) > 0, name
    assert all(row["grad_norm"] > 0 for row in rows)
    assert any(row["sampled_groups"] > 6 for row in rows), "groups without a signal were drawn again"
    assert sum(row.get(f"{label}/trained_groups", 0) > 0 for row in rows for label in "abc") > STEPS
    assert set(whole["weights and optimizer"]["files"]) == {"adapter.safetensors", "optimizer.pt", "reference.safetensors"}
    assert any(whole["work"].values())


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_bytes(
    whole: dict[str, Any], model_folder: Path, overlap: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings(tmp_path, model_folder, overlap)))
    killed = moments(KILLS, "everything")
    command = [sys.executable, str(SCRIPT), str(path), json.dumps(killed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert json.loads(done.stdout) == [-signal.SIGKILL] * KILLS + [0], (killed, done.stderr[-800:])
    found = state(tmp_path)
    for name, value in whole.items():
        assert found[name] == value, name
