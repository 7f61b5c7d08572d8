"""A model that solves sums of one digit now and then, for the tests of evaluation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def sums_model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A folder with a small model after a short cold start; the processes that run tests side by side make it once."""
    from filelock import FileLock

    # Without the parallel runner the fixture's folder is of this process alone, with it each process has one below this.
    together = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp().parent if together else tmp_path_factory.mktemp("sums")
    folder = base / "sums_model"
    with FileLock(base / "sums_model.lock"):
        if not folder.exists():
            _train(folder, tiny_tokenizer)
    return folder


def _train(folder: Path, tiny_tokenizer: Any) -> None:
    from verigym.trainer.config.run import SourceConfig
    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.scratch import scratch_qwen3
    from verigym.trainer.stages.examples import demonstrations, to_pairs
    from verigym.trainer.stages.quickstart import cold_start

    source = SourceConfig(environment="arithmetic", options={"digits": 1, "operations": "+"})
    codec = Codec(tiny_tokenizer)
    pairs = to_pairs(demonstrations([source], "train", 120 * 16, 0), codec)
    model = scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=4)
    sizes: dict[str, Any] = {"steps": 120, "batch_size": 16, "peak_learning_rate": 1e-2}
    cold_start(model, codec, pairs, **sizes)
    made = folder.with_suffix(".partial")
    model.save_pretrained(made)
    tiny_tokenizer.save_pretrained(made)
    made.rename(folder)
