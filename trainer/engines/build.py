"""Builds the engine that a run's settings name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Engine
from verigym.trainer.engines.snapshot import SnapshotEngine
from verigym.trainer.models.codec import Codec


def build_engine(config: TrainConfig, model: Any, codec: Codec) -> Engine:
    """Return the engine for this policy; with `overlap`, one whose weights stay as they are until the next `sync`.

    Args:
        config: the run; `config.engine` is a name in `ENGINES`.
        model: the policy.
        codec: its tokenizer.

    Raises:
        UsageError: vLLM is named and does not start, or `cuda_graphs` is set without CUDA.
    """
    entry = ENGINES[config.engine]
    module, _, name = entry.target.partition(":")
    build: Callable[[Any], Engine] = partial(getattr(import_module(module), name).from_config, config, codec=codec)
    if config.overlap != "none" and not entry.own_weights:
        return SnapshotEngine(model, build)
    return build(model)
