"""The table of engines, which sample completions, and the settings of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from verigym.envs.contract.errors import did_you_mean
from verigym.trainer.config.frozen import Frozen


@dataclass(frozen=True)
class EngineEntry:
    """The description of one sampling engine.

    The configuration, the engine builder, the checks and the documentation read it.
    """

    target: str
    """`module:Class`, imported when a run uses this engine. `Class.from_config(config, model, codec)` makes the engine."""
    what: str
    """One phrase, for docs/engines.md."""
    where: str
    """Which process samples, for docs/engines.md."""
    settings: tuple[str, ...] = ()
    """Settings of this engine. A setting has an effect only with the engines that list it here or in `required`."""
    required: tuple[str, ...] = ()
    """Settings that must be given with this engine. Engines that do not list such a setting refuse it."""
    package: str | None = None
    """Optional package that the engine needs, by its name in `envs.extras`; None if it needs none."""
    own_weights: bool = False
    """Whether the engine has its own copy of the weights, which it replaces at each `sync`. If False, it samples from the very
    model that is trained."""
    distributed: bool = False
    """Whether it works in a run of several processes (torchrun)."""
    free: bool = False
    """Whether the engine can take new weights while it samples, as `overlap: free` needs. If so, it is a `FreeEngine`."""
    joins: bool = False
    """Whether the engine can start new completions while others are sampled, as `episode_order: free` needs."""


ENGINES: Mapping[str, EngineEntry] = {
    "native": EngineEntry(
        "verigym.trainer.engines.native.engine:NativeEngine",
        "our decode loop over the policy itself; the default",
        "this process",
        settings=("cuda_graphs", "episode_cache_mb"),
        distributed=True,
        joins=True,
    ),
    "transformers": EngineEntry(
        "verigym.trainer.engines.hf:TransformersEngine",
        "`generate` of transformers, fed with the same random numbers: the plain reference",
        "this process",
        distributed=True,
    ),
    "vllm": EngineEntry(
        "verigym.trainer.engines.vllm.in_process:VllmEngine",
        "vLLM beside the trainer, on the same device; asleep while the policy is updated",
        "this process",
        settings=(
            "vllm_dtype",
            "vllm_max_model_len",
            "vllm_gpu_memory_utilization",
            "vllm_tensor_parallel_size",
            "vllm_enforce_eager",
            "vllm_sleep",
        ),
        package="vllm",
        own_weights=True,
        joins=True,
    ),
    "vllm-server": EngineEntry(
        "verigym.trainer.engines.vllm.remote:VllmServerEngine",
        "one or more vLLM servers; weights are pushed to them",
        "other processes or machines",
        settings=(
            "vllm_dtype",
            "vllm_api_key_env",
            "vllm_weights_dir",
            "vllm_requests",
            "vllm_timeout_s",
            "vllm_wait_s",
            "vllm_retries",
        ),
        required=("vllm_urls",),
        own_weights=True,
        distributed=True,
        free=True,
        joins=True,
    ),
}
"""Every engine by the value of the setting `engine`. A new engine needs a class, an entry here, and its settings below."""


class EngineFields(Frozen):
    """Settings of the engine and its options. All but `engine` itself may change when a run is resumed."""

    engine: str = Field(default="native", description=f"What samples completions: {', '.join(ENGINES)}; see docs/engines.md.")
    vllm_dtype: Literal["fp32", "bf16", "fp16"] | None = None
    """Engine vllm: precision in which it computes. Engine vllm-server: precision of the weights that are sent; the servers
    compute in the precision they were started with. The run's dtype when left out."""
    vllm_max_model_len: int | None = Field(default=None, ge=1)
    """For engine vllm: most tokens of prompt and completion together. When left out: without episodes max_prompt_tokens +
    max_new_tokens, at most the model's limit; with episodes max_context_tokens, or else the model's limit."""
    vllm_gpu_memory_utilization: float = Field(default=0.3, gt=0, le=1)
    """Share of the GPU's memory that vLLM takes beside the trainer, for engine vllm."""
    vllm_tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs over which vLLM splits each layer, for engine vllm."""
    vllm_enforce_eager: bool = False
    """Runs vLLM without compiling and without CUDA graphs, for engine vllm; always so on the CPU."""
    vllm_sleep: bool = True
    """vLLM releases GPU memory while the policy is updated, for engine vllm."""
    vllm_urls: tuple[str, ...] = ()
    """Addresses of the servers, such as http://127.0.0.1:8000, for engine vllm-server; completions are spread over them."""
    vllm_api_key_env: str = "VLLM_API_KEY"
    """Environment variable that holds the servers' API key; no key is sent if that variable is not set."""
    vllm_weights_dir: Path | None = None
    """Folder shared by the trainer and all servers: weights go through it rather than over HTTP."""
    vllm_requests: int = Field(default=64, ge=1, le=1024)
    """Concurrent requests per server, one completion each."""
    vllm_timeout_s: float = Field(default=600.0, gt=0)
    """Most seconds for one completion, or for loading weights."""
    vllm_wait_s: float = Field(default=600.0, gt=0)
    """The run stops when all servers have failed for this many seconds; at the start, when any one server has."""
    vllm_retries: int = Field(default=5, ge=1)
    """Tries for one completion, on any servers, before the run stops."""

    @field_validator("engine")
    @classmethod
    def _engine_is_known(cls, name: str) -> str:
        if name not in ENGINES:
            raise ValueError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)}")
        return name

    @model_validator(mode="after")
    def _engine_is_consistent(self) -> Self:
        for name, entry in ENGINES.items():
            for field in entry.required:
                if (field in ENGINES[self.engine].required) is not bool(getattr(self, field)):
                    raise ValueError(f"engine {name} and {field} go together: give both, or another engine without {field}")
        for url in self.vllm_urls:
            if "@" in url:  # the message leaves out what may be a password
                raise ValueError("vllm_urls: an address holds '@'; put the servers' key where vllm_api_key_env says")
            if not url.startswith(("http://", "https://")) or "?" in url or "#" in url:
                raise ValueError(f"vllm_urls: {url!r} is not the address of a server; expected http://HOST:PORT")
        if len({url.rstrip("/") for url in self.vllm_urls}) < len(self.vllm_urls):
            raise ValueError("vllm_urls names a server twice; give each once")
        return self
