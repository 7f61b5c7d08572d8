"""The engine that a run's settings name."""

from __future__ import annotations

import os
from typing import Any

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Engine
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.liger import wants_graphs


def build_engine(config: TrainConfig, model: Any, codec: Codec) -> Engine:
    """Return the engine for this policy.

    Raises:
        UsageError: vLLM is asked for and does not start, or CUDA graphs are without CUDA.
    """
    if config.engine == "native":
        static = wants_graphs(config.cuda_graphs, model.device)
        return NativeEngine(model, codec, rows_at_a_time=config.generation_rows, dtype=config.dtype, static_cache=static)
    if config.engine == "transformers":
        from verigym.trainer.engines.hf import TransformersEngine

        return TransformersEngine(model, codec, rows_at_a_time=config.generation_rows, dtype=config.dtype)
    if config.engine == "vllm":
        return _vllm(config, model, codec)
    from verigym.trainer.engines.vllm.remote import VllmServerEngine

    return VllmServerEngine(
        model,
        codec,
        urls=config.vllm_urls,
        api_key=os.environ.get(config.vllm_api_key_env),
        dtype=config.vllm_dtype or config.dtype,
        weights_dir=config.vllm_weights_dir,
        requests=config.vllm_requests,
        timeout_s=config.vllm_timeout_s,
        wait_s=config.vllm_wait_s,
        retries=config.vllm_retries,
    )


def _vllm(config: TrainConfig, model: Any, codec: Codec) -> Engine:
    from verigym.trainer.engines.vllm.in_process import VllmEngine

    wanted = config.max_prompt_tokens + config.max_new_tokens
    positions = getattr(model.config, "max_position_embeddings", None) or wanted
    on_cpu = model.device.type == "cpu"
    return VllmEngine(
        model,
        codec,
        max_model_len=config.vllm_max_model_len or min(wanted, positions),
        sleep=config.vllm_sleep and not on_cpu,
        dtype=config.vllm_dtype or config.dtype,
        tensor_parallel_size=config.vllm_tensor_parallel_size,
        gpu_memory_utilization=config.vllm_gpu_memory_utilization,
        enforce_eager=config.vllm_enforce_eager or on_cpu,
        max_num_seqs=config.generation_rows,
        seed=0,  # each completion has a seed of its own
    )
