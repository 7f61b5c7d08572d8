"""What the tests with the real vLLM share: when they run, a model folder, a run's settings, and its report."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import vllm_venv
from needs import lack

from verigym.trainer.models.scratch import scratch_qwen3

WATCHED_RUN = Path(__file__).parent / "watched_run.py"
STEPS = 20


def require_vllm() -> Path:
    """Return the Python that has vLLM, or skip the test."""
    if os.environ.get("VERIGYM_TEST_VLLM") != "1":
        lack("vllm", "takes minutes and 3.5 GB; VERIGYM_TEST_VLLM=1 runs it")
    if not vllm_venv.ready():
        try:
            vllm_venv.make(timeout_s=1200)
        except (subprocess.SubprocessError, OSError) as error:
            lack("vllm", f"vLLM's environment cannot be made in {vllm_venv.folder()}: {error}")
    return vllm_venv.folder() / "bin/python"


def save_model(folder: Path, tokenizer: Any) -> Path:
    """Write a model whose greedy completions differ from step to step, and end at different lengths."""
    model = scratch_qwen3(tokenizer, hidden_size=64, layers=2, heads=2, intermediate_size=96, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6)
    model.generation_config.eos_token_id = list(range(1, len(tokenizer), 20))
    # A server that applied these would be told by its log-probabilities.
    model.generation_config.do_sample = True
    model.generation_config.top_k = 3
    model.generation_config.repetition_penalty = 1.3
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def settings(folder: Path, model: Path, **more: Any) -> Path:
    """Write a run's settings and return their file."""
    fields = {
        "model": str(model),
        "output": str(folder / "out"),
        "sources": [{"environment": "letters"}],
        "steps": STEPS,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_prompt_tokens": 64,
        "max_new_tokens": 16,
        "temperature": 0.8,
        "learning_rate": 3e-3,
        "warmup_steps": 0,
        "correction": "token_truncated",
        "eval_every": 0,
        "checkpoint_every": 5,
        "threads": 1,
        "workers": 0,
        "device": "cpu",
        **more,
    }
    file = folder / "config.json"
    file.write_text(json.dumps(fields))
    return file


def check_run(folder: Path, report: Path, steps: int = STEPS) -> dict[str, float]:
    """Assert that the engine had the policy's weights after every push and return the largest gaps."""
    pushes = json.loads(report.read_text())
    assert len(pushes) == steps + 1
    for number, push in enumerate(pushes):
        assert push["engine"] == push["policy"], f"push {number}: greedy completions of engine and policy differ"
        assert push["gap"] < 1e-3, f"push {number}"
    assert {reason for push in pushes for reason in push["reasons"]} == {"stop", "length"}
    assert sum(a["engine"] != b["engine"] for a, b in zip(pushes, pushes[1:], strict=False)) >= steps / 2
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "train"]
    assert [row["step"] for row in rows] == list(range(1, steps + 1)), "every step counts once"
    learned = [row for row in rows if row["rows_with_gradient"]]
    assert len(learned) > steps / 2
    assert all(row["logprob_mismatch"] < 1e-4 for row in learned)
    assert all(row["correction"] == pytest.approx(1, abs=1e-3) for row in learned)
    assert all(row["unscored"] == 0 and row["trained_rows"] == 16 for row in rows)
    assert (folder / "out/final/model.safetensors").exists()
    return {
        "greedy_gap": max(push["gap"] for push in pushes),
        "logprob_mismatch": max(row["logprob_mismatch"] for row in learned),
        "greedy_tokens": sum(len(tokens) for push in pushes for tokens in push["engine"]),
    }
