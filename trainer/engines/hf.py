"""Reference engine: transformers' own `generate`, fed with the same uniform random numbers as the native engine.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
import transformers

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Generated, OnFinished, report_tokens
from verigym.trainer.engines.native.generate import sample
from verigym.trainer.logprobs.forward import autocast
from verigym.trainer.models.codec import Codec
from verigym.trainer.rng import keyed_uniforms


class TransformersEngine:
    """Engine that samples from the trained model itself with transformers' `generate`.

    It is slow; its purpose is to check verigym's own decoding.
    """

    def __init__(self, model: Any, codec: Codec, *, rows_at_a_time: int, dtype: str) -> None:
        """Make an engine that samples from `model`.

        Args:
            model: the policy.
            codec: the policy's tokenizer.
            rows_at_a_time: most completions decoded at the same time.
            dtype: dtype of the forward pass, "fp32" or "bf16".
        """
        self.model = model
        self.codec = codec
        self.rows_at_a_time = rows_at_a_time
        self.dtype = dtype

    @classmethod
    def from_config(cls, config: TrainConfig, model: Any, codec: Codec) -> Self:
        """Make the engine of a run; see `build_engine`."""
        return cls(model, codec, rows_at_a_time=config.generation_rows, dtype=config.dtype)

    positions = None

    def sync(self) -> None:
        """Do nothing: the engine samples from the trained model itself."""

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
        rows = [(p, g) for p, keys in enumerate(row_keys) for g in range(len(keys))]
        done: dict[tuple[int, int], Generated] = {}
        self.model.eval()
        for start in range(0, len(rows), self.rows_at_a_time):
            batch = rows[start : start + self.rows_at_a_time]

            def finished(row: int, result: Generated, batch: Sequence[tuple[int, int]] = batch) -> None:
                done[batch[row]] = result
                on_finished(*batch[row], result)

            uniforms_BT = None
            if temperature > 0:
                uniforms_BT = torch.stack([keyed_uniforms(max_new_tokens, *row_keys[p][g]) for p, g in batch])
            self._generate([prompts[p] for p, _ in batch], max_new_tokens, temperature, uniforms_BT, finished)
        return [[done[p, g] for g in range(len(keys))] for p, keys in enumerate(row_keys)]

    def close(self) -> None:
        """Do nothing: the engine holds no resources."""

    def _generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        temperature: float,
        uniforms_BT: torch.Tensor | None,
        finished: Any,
    ) -> None:
        # With adapters, generate from the base, which contains them: peft's `generate` would keep our settings.
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        width = max(map(len, prompts))
        pad, device = self.codec.pad_id, model.device
        processor = _SamplingProcessor(width, temperature, uniforms_BT, self.codec.eos_ids, max_new_tokens, finished)
        own = model.generation_config
        # Replaces the model's generation config, whose penalties and bounds would apply wherever ours sets none.
        model.generation_config = transformers.GenerationConfig(
            max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=sorted(self.codec.eos_ids) or None, pad_token_id=pad
        )
        try:
            with torch.no_grad(), autocast(device, self.dtype):
                sequences_BL = model.generate(
                    input_ids=torch.tensor([[pad] * (width - len(ids)) + list(ids) for ids in prompts], device=device),
                    attention_mask=torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts], device=device),
                    logits_processor=transformers.LogitsProcessorList([processor]),
                )
        finally:
            model.generation_config = own
        processor.report_ended(sequences_BL)


class _SamplingProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """Samples as the native engine does: masks all tokens but the sampled one, and reports rows that have ended."""

    def __init__(
        self,
        width: int,
        temperature: float,
        uniforms_BT: torch.Tensor | None,
        eos_ids: frozenset[int],
        max_new_tokens: int,
        finished: Any,
    ) -> None:
        self.width = width
        self.temperature = temperature
        self.uniforms_BT = uniforms_BT
        self.eos_ids = eos_ids
        self.max_new_tokens = max_new_tokens
        self.finished = finished
        self.logprobs: list[list[float]] = []
        self.ended: set[int] = set()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores `[B, V]` that are 0 for the chosen token and -inf for the others."""
        self.report_ended(input_ids)
        t = input_ids.shape[1] - self.width
        uniform_B = None if self.uniforms_BT is None else self.uniforms_BT[:, t].to(scores.device)
        token_B, logp_B = sample(scores, self.temperature, uniform_B)
        self.logprobs.append(logp_B.tolist())
        report_tokens(len(token_B) - len(self.ended))
        return torch.full_like(scores, float("-inf")).scatter(1, token_B[:, None], 0.0)

    def report_ended(self, sequences_BL: torch.Tensor) -> None:
        """Report the rows of `sequences_BL` that ended with their last token."""
        length = sequences_BL.shape[1] - self.width
        if not length:
            return
        for row, token in enumerate(sequences_BL[:, -1].tolist()):
            stopped = token in self.eos_ids
            if row in self.ended or not (stopped or length == self.max_new_tokens):
                continue
            self.ended.add(row)
            tokens = tuple(sequences_BL[row, self.width :].tolist())
            logprobs = tuple(step[row] for step in self.logprobs)
            self.finished(row, Generated(tokens, logprobs, "stop" if stopped else "length"))
