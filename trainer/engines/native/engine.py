"""Native engine: our decode loop over the policy itself, so that no weights are copied."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Arrivals, Generated, OnFinished, Request
from verigym.trainer.engines.native.cuda_graphs import wants_graphs
from verigym.trainer.engines.native.generate import generate, play
from verigym.trainer.engines.native.turn_cache import TurnCache
from verigym.trainer.logprobs.forward import autocast
from verigym.trainer.models.codec import Codec


class NativeEngine:
    """Engine that samples from the very model that is being trained, with verigym's own `generate`."""

    def __init__(
        self,
        model: Any,
        codec: Codec,
        *,
        rows_at_a_time: int,
        dtype: str,
        static_cache: bool = False,
        episode_cache_bytes: int = 0,
    ) -> None:
        """Make an engine that samples from `model`.

        Args:
            model: the policy.
            codec: the policy's tokenizer.
            rows_at_a_time: most completions decoded at the same time.
            dtype: dtype of the forward pass, "fp32" or "bf16".
            static_cache: see `generate`; on CUDA its steps are captured as CUDA graphs.
            episode_cache_bytes: most bytes of the keys and values that are kept for the next turns of episodes.
        """
        self.model = model
        self.codec = codec
        self.rows_at_a_time = rows_at_a_time
        self.dtype = dtype
        self.static_cache = static_cache
        self.turn_cache = TurnCache(episode_cache_bytes)

    @classmethod
    def from_config(cls, config: TrainConfig, model: Any, codec: Codec) -> Self:
        """Make the engine of a run; see `build_engine`."""
        static = wants_graphs(config.cuda_graphs, model.device)
        return cls(
            model,
            codec,
            rows_at_a_time=config.generation_rows,
            dtype=config.dtype,
            static_cache=static,
            episode_cache_bytes=config.episode_cache_mb * 2**20,
        )

    positions = None

    def sync(self) -> None:
        """Drop the keys and values that were computed with earlier weights.

        No weights are loaded, because the engine samples from the trained model itself.
        """
        self.turn_cache.clear()

    def rest(self) -> None:
        """Drop the keys and values kept for episodes."""
        self.turn_cache.clear()

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

    def play(
        self,
        requests: Sequence[Request],
        *,
        temperature: float,
        on_finished: OnFinished,
        arrivals: Arrivals | None = None,
    ) -> None:
        """Sample a completion for each of `requests`, as `EpisodeEngine.play` does.

        If the keys and values of an episode's earlier turns are still in the turn cache, only the new tokens of its prompt are
        run. With `arrivals`, the keys and values are in buffers that grow, and CUDA graphs are not used.
        """
        self.model.eval()
        with autocast(self.model.device, self.dtype):
            play(
                self.model,
                requests,
                temperature=temperature,
                eos_ids=self.codec.eos_ids,
                pad_id=self.codec.pad_id,
                rows_at_a_time=self.rows_at_a_time,
                static_cache=self.static_cache and arrivals is None,
                on_finished=on_finished,
                arrivals=arrivals,
                turn_cache=self.turn_cache if self.turn_cache.most_bytes else None,
            )

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop the keys and values kept for `episodes`, which are over."""
        self.turn_cache.forget(episodes)

    def close(self) -> None:
        """Drop the keys and values kept for episodes."""
        self.turn_cache.clear()
