"""A model that solves sums of one digit now and then, for the tests of evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def sums_model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A folder with a small model after a short cold start."""
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
    folder = tmp_path_factory.mktemp("sums_model")
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
