"""vLLM engine in the trainer's process, on the trainer's device. It releases its memory while the policy is updated."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Arrivals, Generated, OnFinished, Request, generate_by_play, report_tokens
from verigym.trainer.engines.sampling import Parameter, sampling_parameters
from verigym.trainer.engines.vllm.calls import Vllm
from verigym.trainer.models.codec import Codec


class VllmEngine:
    """Samples from vLLM's copy of the policy."""

    def __init__(self, model: Any, codec: Codec, *, max_model_len: int, sleep: bool, **options: Any) -> None:
        """Start vLLM.

        Args:
            model: the policy.
            codec: the policy's tokenizer.
            max_model_len: most tokens of prompt and completion together.
            sleep: whether `rest` releases vLLM's memory.
            **options: further options of `Vllm`.

        Raises:
            UsageError: vLLM is not installed, or does not start.
        """
        self.codec = codec
        self.max_model_len = max_model_len
        self.vllm = Vllm(model, sleep=sleep, max_model_len=max_model_len, **options)
        self.may_sleep = sleep
        self.asleep = False
        self.version = 0
        """How often weights were loaded."""
        self.requests = 0

    @classmethod
    def from_config(cls, config: TrainConfig, model: Any, codec: Codec) -> Self:
        """Make the engine of a run; see `build_engine`."""
        wanted = config.max_prompt_tokens + config.max_new_tokens
        positions = getattr(model.config, "max_position_embeddings", None) or wanted
        on_cpu = model.device.type == "cpu"
        return cls(
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

    @property
    def positions(self) -> int:
        """See `Engine.positions`."""
        return self.max_model_len

    def sync(self) -> None:
        """Load the policy's weights; wake vLLM up first if it sleeps."""
        if self.asleep:
            self.vllm.wake("weights")
        self.vllm.load()
        if self.asleep:
            self.vllm.wake("kv_cache")
        self.asleep = False
        self.version += 1

    def rest(self) -> None:
        """Release vLLM's memory until the next `sync`."""
        if self.may_sleep and not self.asleep:
            self.vllm.sleep()
            self.asleep = True

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions, as many at the same time as vLLM has room for; see `Engine.generate`.

        Raises:
            UsageError: a prompt is too long for vLLM's max_model_len.
        """
        return generate_by_play(self, prompts, row_keys, max_new_tokens, temperature, on_finished)

    def play(
        self,
        requests: Sequence[Request],
        *,
        temperature: float,
        on_finished: OnFinished,
        arrivals: Arrivals | None = None,
    ) -> None:
        """Sample completions, as `EpisodeEngine.play` does. vLLM's prefix cache holds the keys and values of earlier turns.

        Raises:
            UsageError: a prompt is too long for vLLM's max_model_len.
        """
        if self.asleep or not self.version:
            raise RuntimeError("the engine has no weights; call sync first")
        waiting: dict[str, Request] = {}

        def add(new: Sequence[Request]) -> None:
            for request in new:
                self.requests += 1
                self.vllm.add(str(self.requests), request.prompt, self._parameters(request, temperature))
                waiting[str(self.requests)] = request

        try:
            add(requests)
            while waiting:
                report_tokens(len(waiting))  # about one each
                for name, generated in self.vllm.step():
                    on_finished(*waiting.pop(name).place, generated)
                if arrivals is not None:
                    add(arrivals(not waiting))
        finally:
            self.vllm.abort(list(waiting))

    def _parameters(self, request: Request, temperature: float) -> dict[str, Parameter]:
        return sampling_parameters(
            request.prompt,
            request.key,
            max_new_tokens=request.max_new_tokens,
            max_model_len=self.max_model_len,
            temperature=temperature,
            eos_ids=self.codec.eos_ids,
        )

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Do nothing: vLLM's prefix cache drops by itself the entries that have not been used for longest."""

    def close(self) -> None:
        """End vLLM."""
        self.vllm.close()
