"""The real vLLM in the trainer's process: the whole run is done by the Python of vLLM's own environment."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import vllm_venv
from tool_users import save_calling_model
from vllm_fixtures import WATCHED_RUN, check_run, require_vllm, save_model, settings

pytestmark = pytest.mark.slow


def run(folder: Path, tokenizer: Any, steps: int, **more: Any) -> None:
    """Train with vLLM, comparing engine and policy after every push, and print the figures."""
    python = require_vllm()
    config = settings(folder, save_model(folder / "model", tokenizer), engine="vllm", steps=steps, **more)
    start = time.monotonic()
    done = subprocess.run(
        [str(python), str(WATCHED_RUN), str(config), str(folder / "report.json")],
        env=vllm_venv.environment(),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    print(f"vllm in process {more}: {time.monotonic() - start:.0f} s, {check_run(folder, folder / 'report.json', steps)}")


def test_twenty_steps_in_process(tmp_path: Path, tiny_tokenizer: Any) -> None:
    run(tmp_path, tiny_tokenizer, 20)


def test_adapters_are_merged_into_what_it_samples_from(tmp_path: Path, tiny_tokenizer: Any) -> None:
    run(tmp_path, tiny_tokenizer, 6, lora_rank=8, learning_rate=0.05)


def test_layers_that_two_processes_share_get_the_weights_too(tmp_path: Path, tiny_tokenizer: Any) -> None:
    run(tmp_path, tiny_tokenizer, 4, vllm_tensor_parallel_size=2)


@pytest.mark.parametrize(("order", "steps"), [("lockstep", 20), ("free", 6)])
def test_steps_of_episodes_with_a_calculator(tmp_path: Path, order: str, steps: int) -> None:
    """Each turn is a request with all tokens so far, which the policy itself must find as likely as vLLM did."""
    python = require_vllm()
    source = {"environment": "letters", "name": "tools", "tools": {"calculator": {}}}
    model = save_calling_model(tmp_path / "model")
    limits = {"max_new_tokens": 64, "max_turns": 3, "workers": 1, "episode_order": order, "steps": steps}
    config = settings(tmp_path, model, engine="vllm", sources=[source], **{**limits, "learning_rate": 1e-4})
    command = [str(python), str(WATCHED_RUN), str(config), str(tmp_path / "report.json")]
    done = subprocess.run(command, env=vllm_venv.environment(), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    rows = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "train"]
    mismatch = max(row["logprob_mismatch"] for row in rows if row["rows_with_gradient"])
    turns = [row["tools/turns"] for row in rows]
    print(f"vllm episodes, {order}: {min(turns):.2f} to {max(turns):.2f} turns, logprob_mismatch {mismatch:.1e}")
    assert len(rows) == steps and sum(turns) > 1.2 * steps
    assert mismatch < 1e-5
