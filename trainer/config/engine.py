"""The settings of what samples completions: which engine, and how vLLM is started or reached."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from verigym.trainer.config.frozen import Frozen


class EngineFields(Frozen):
    """Where completions come from. All but `engine` itself may change between a run and its continuation."""

    engine: Literal["native", "transformers", "vllm", "vllm-server"] = "native"
    """native decodes with the policy itself, transformers through its generate, vllm in this process, vllm-server over HTTP."""
    vllm_dtype: Literal["fp32", "bf16", "fp16"] | None = None
    """Of vLLM's weights and activations; the run's dtype when left out. A server has the one it was started with."""
    vllm_max_model_len: int | None = Field(default=None, ge=1)
    """Most tokens of prompt and completion together; max_prompt_tokens + max_new_tokens when left out. For engine vllm."""
    vllm_gpu_memory_utilization: float = Field(default=0.3, gt=0, le=1)
    """Share of the GPU's memory that vLLM takes beside the trainer, for engine vllm."""
    vllm_tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs over which vLLM shares each layer, for engine vllm."""
    vllm_enforce_eager: bool = False
    """Runs vLLM without compiling and without CUDA graphs, for engine vllm; always so on the CPU."""
    vllm_sleep: bool = True
    """vLLM gives the GPU's memory back while the policy is updated, for engine vllm."""
    vllm_urls: tuple[str, ...] = ()
    """Addresses of the servers, such as http://127.0.0.1:8000, for engine vllm-server; they share the completions out."""
    vllm_api_key_env: str = "VLLM_API_KEY"
    """Name of the environment variable that holds the servers' key; without it none is sent."""
    vllm_weights_dir: Path | None = None
    """Folder that the trainer and the servers all see: weights go through it rather than over HTTP."""
    vllm_requests: int = Field(default=64, ge=1, le=1024)
    """Completions that a server is asked for at a time."""
    vllm_timeout_s: float = Field(default=600.0, gt=0)
    """Most seconds that a server may take for one completion, or to load weights."""
    vllm_wait_s: float = Field(default=600.0, gt=0)
    """Seconds that the run waits for a server that does not answer, before it stops."""
    vllm_retries: int = Field(default=5, ge=1)
    """Times that one completion is asked for while the server answers with failures, before the run stops."""

    @model_validator(mode="after")
    def _engine_is_consistent(self) -> Self:
        if (self.engine == "vllm-server") is not bool(self.vllm_urls):
            raise ValueError("engine vllm-server and vllm_urls go together: give the address of each server, or another engine")
        for url in self.vllm_urls:
            if "@" in url:  # the message leaves out what may be a password
                raise ValueError("vllm_urls: an address holds '@'; put the servers' key where vllm_api_key_env says")
            if not url.startswith(("http://", "https://")) or "?" in url or "#" in url:
                raise ValueError(f"vllm_urls: {url!r} is not the address of a server; expected http://HOST:PORT")
        if len({url.rstrip("/") for url in self.vllm_urls}) < len(self.vllm_urls):
            raise ValueError("vllm_urls names a server twice; give each once")
        return self
