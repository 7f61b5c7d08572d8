"""A model made from nothing and examples for it, for the tests of stages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A folder with an untrained model of two layers."""
    from verigym.trainer.models.scratch import scratch_qwen3

    folder = tmp_path_factory.mktemp("small_model")
    scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=4).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def fit_fields(small_model: Path) -> Callable[..., dict[str, Any]]:
    """Fields of a stage that trains the small model on the CPU in a moment."""

    def fields(output: Path, **more: Any) -> dict[str, Any]:
        base = {
            "model": str(small_model),
            "output": str(output),
            "seed": 3,
            "device": "cpu",
            "threads": 1,
            "learning_rate": 1e-2,
            "warmup_steps": 2,
            "loggers": [],
        }
        return {**base, **more}

    return fields
