"""Builds the engine that a run's settings name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.engines.base import Engine
from verigym.trainer.models.codec import Codec


def build_engine(config: TrainConfig, model: Any, codec: Codec, world: World = SOLO) -> Engine:
    """Return the engine that samples from `model`.

    Args:
        config: the settings of the run; `config.engine` is a name in `ENGINES`.
        model: the policy.
        codec: the policy's tokenizer.
        world: the processes that train together.

    Raises:
        UsageError: vLLM is named and does not start, or `cuda_graphs` is set without CUDA.
    """
    if world.size > 1 and config.engine == "vllm-server":
        from verigym.trainer.engines.vllm.shared import SharedServersEngine

        servers = SharedServersEngine.from_config(config, model, codec)
        servers.share(world)
        return servers
    module, _, name = ENGINES[config.engine].target.partition(":")
    engine: Engine = getattr(import_module(module), name).from_config(config, model, codec)
    return engine
