"""Native engine: our decode loop over the policy itself, so that no weights are copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Generated, OnFinished
from verigym.trainer.engines.native.cuda_graphs import wants_graphs
from verigym.trainer.engines.native.generate import generate
from verigym.trainer.logprobs.forward import autocast
from verigym.trainer.models.codec import Codec


class NativeEngine:
    """Samples from the model that is being trained, with our own `generate`."""

    def __init__(self, model: Any, codec: Codec, *, rows_at_a_time: int, dtype: str, static_cache: bool = False) -> None:
        """Sample from this model.

        Args:
            model: the policy.
            codec: its tokenizer.
            rows_at_a_time: most completions decoded at the same time.
            dtype: of the forward pass, "fp32" or "bf16".
            static_cache: see `generate`; on CUDA its steps are captured as CUDA graphs.
        """
        self.model = model
        self.codec = codec
        self.rows_at_a_time = rows_at_a_time
        self.dtype = dtype
        self.static_cache = static_cache

    @classmethod
    def from_config(cls, config: TrainConfig, model: Any, codec: Codec) -> Self:
        """Make the engine of a run; see `build_engine`."""
        static = wants_graphs(config.cuda_graphs, model.device)
        return cls(model, codec, rows_at_a_time=config.generation_rows, dtype=config.dtype, static_cache=static)

    positions = None

    def sync(self) -> None:
        """Do nothing: the policy is the model itself."""

    def rest(self) -> None:
        """Do nothing: the engine holds no memory of its own."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions, `rows_at_a_time` at a time; see `Engine.generate`."""
        self.model.eval()
        with autocast(self.model.device, self.dtype):
            return generate(
                self.model,
                prompts,
                row_keys,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                eos_ids=self.codec.eos_ids,
                pad_id=self.codec.pad_id,
                rows_at_a_time=self.rows_at_a_time,
                static_cache=self.static_cache,
                on_finished=on_finished,
            )

    def close(self) -> None:
        """Do nothing."""
