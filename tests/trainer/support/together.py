"""Runs of one and of several processes whose results are compared: their settings, and what they leave behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from patience import HANG_S
from safetensors.torch import load_file
from warm_python import warm_python

SUPPORT = Path(__file__).parent
STEPS = 5


def settings(folder: Path, model: Path, **changes: Any) -> Path:
    """Write a run's configuration and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [{"environment": "letters", "name": "a", "weight": 2}, {"environment": "letters", "name": "b"}],
        "seed": 4,
        "steps": STEPS,
        "prompts_per_step": 5,
        "group_size": 4,
        "max_new_tokens": 8,
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "updates_per_step": 2,
        "kl_coef": 0.02,
        "reference_every": 2,
        "clip_high": 0.01,
        "max_grad_norm": 0.1,
        "dynamic_sampling": True,
        "curriculum": True,
        "replay_share": 0.4,
        "checkpoint_every": 1,
        "keep_checkpoints": STEPS,
        "eval_every": 3,
        "eval_prompts": 3,
        "threads": 1,
        "workers": 0,
        "device": "cpu",
        **changes,
    }
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return path


MASKED: dict[str, Any] = {
    "prompts_per_step": 2,
    "group_size": 2,
    "max_new_tokens": 3,
    "kl_coef": 0.0,
    "reference_every": 0,
    "truncated": "mask",
    "dynamic_sampling": False,
    "curriculum": False,
    "replay_share": 0.0,
    "eval_every": 0,
}


def launch(
    *configs: Path,
    options: Sequence[str] = (),
    script: str = "run_together.py",
    processes: int = 2,
    warm: bool = True,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run configurations one after the other in several processes, or another script with these arguments.

    `warm=False` starts torchrun and the processes as users do, which takes several times as long.
    """
    python = warm_python() if warm else [sys.executable]
    torchrun = [*python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *options]
    command = [*torchrun, "--no-python", *python, str(SUPPORT / script), *map(str, configs)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables) as process:
        try:
            out, errors = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its processes; killed, it would leave them behind
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "out/final/model.safetensors")


def distance(one: Path, other: Path) -> float:
    """Return the largest difference between two runs' weights, all in float64."""
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    assert {tensor.dtype for tensor in mine.values()} == {torch.float64}
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


def metrics(folder: Path, kind: str = "train") -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows if row["kind"] == kind]


def samples(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out/samples.jsonl").read_text().splitlines()]


def lives(folder: Path) -> int:
    """Return how often a run was started, restarts after a kill included.

    torchrun does not tell it well: it names the process whose end it saw first, be it the killed one or one that missed it.
    """
    return len(json.loads((folder / "out/run.json").read_text())["starts"])


def rewound(source: Path, target: Path, step: int, model: Path, **changes: Any) -> Path:
    """Copy a run as it was after so many steps and return its configuration."""
    shutil.copytree(source / "out", target / "out")
    shutil.rmtree(target / "out/final")
    for checkpoint in (target / "out/checkpoints").iterdir():
        if checkpoint.name > f"step-{step:08d}":
            shutil.rmtree(checkpoint)
    return settings(target, model, **changes)
