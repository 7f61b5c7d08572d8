"""A model that solves sums of one digit now and then, for the tests of evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def sums_model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A folder with a small model after a short cold start."""
    from verigym.envs import load
    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.scratch import scratch_qwen3
    from verigym.trainer.stages.quickstart import cold_start

    environment: Any = load("arithmetic", digits=1, operations="+")
    model = scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=4)
    sizes: dict[str, Any] = {"steps": 120, "batch_size": 16, "peak_learning_rate": 1e-2}
    cold_start(model, Codec(tiny_tokenizer), lambda index: environment.demonstration("train", 0, index), **sizes)
    folder = tmp_path_factory.mktemp("sums_model")
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
