"""Pure functions that compute the cost of a run: bytes of memory by purpose, and seconds from numbers of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.logprobs.shared_prefix import copy_charge

WORKING = 1.5
"""Ratio of an update's peak memory to the memory that its forward pass keeps. It is above 1 because the backward pass adds
gradients of activations. For the quickstart's model and batches of five shapes, the measured ratios were 1.39 to 1.56. The
measured memory included the chunk of logits, which the estimate counts separately."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model that determine its memory."""

    parameters: int
    layers: int
    kv_heads: int
    head_size: int
    vocabulary: int
    positions: int | None
    """Most tokens of prompt and completion together; None where the model sets no limit."""
    trained: tuple[int, ...]
    """Number of elements of each tensor that is trained: the model's tensors, or those of its adapters."""
    tensors: tuple[int, ...]
    """Number of elements of each tensor of the model without adapters; a critic trains all of these tensors."""
    linear: int = 0
    """Number of parameters in linear layers, except the head. Only these are smaller with `lora_base: 4bit`."""
    layer: int = 0
    """Numbers in the largest repeated layer."""
    ends: int = 0
    """Number of parameters outside of the repeated layers: embeddings, last norm, head."""


@dataclass(frozen=True)
class Memory:
    """Upper bounds of a run's memory, in bytes. `estimate.tables` explains each field."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    critic: int
    kv_cache: int
    sampling: int
    activations: int
    logits: int
    checkpoints: int
    """On disk, with the one being written and the final model."""
    copied: int = 0
    """With `overlap`, bytes of the copy of the weights from which completions are sampled while the policy is updated."""
    overlapped: bool = False
    """Whether generation and update run at the same time."""

    @property
    def standing(self) -> int:
        """Return the bytes that are held during the whole run."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.critic + self.copied

    @property
    def peak(self) -> int:
        """Return the most bytes held at a time.

        Generation and update are in memory at the same time only if the run overlaps them.
        """
        generation, update = self.kv_cache + self.sampling, self.activations + self.logits
        return self.standing + (generation + update if self.overlapped else max(generation, update))


def memory(shape: ModelShape, config: TrainConfig, activation_bytes: float, chunk_tokens: int) -> Memory:
    """Return upper bounds of the memory that a run needs.

    Weights, gradients and optimizer moments are fp32, for policy and critic alike; with adamw_8bit, the moments have 8 bits
    instead. With dtype bf16, the forward pass also holds a bfloat16 copy of the weights. With adapters, only the adapters have
    gradients and moments, and the reference model is the policy without adapters. If the reference is replaced during the run,
    it is a second set of adapters instead. The model with merged adapters that is exported at the end is not counted.

    Args:
        shape: the sizes of the model.
        config: the settings of the run.
        activation_bytes: bytes that one token of a micro-batch keeps for the backward pass, as measured.
        chunk_tokens: number of tokens whose logits the update holds at a time.
    """
    size, trained = shape.parameters, sum(shape.trained)
    half, critic = config.dtype == "bf16", config.advantage == "gae"
    rows = min(config.generation_rows, config.prompts_per_step * config.group_size)
    # Under bf16 too: rotary positions are fp32 and make keys so, and a cache has one dtype.
    entry = 2 * shape.kv_heads * shape.head_size * 4
    moments, critic_moments = (moment_bytes(tensors, config.optimizer) for tensors in (shape.trained, shape.tensors))
    reference = 4 * trained if config.lora_rank else 4 * size
    if config.kl_coef == 0 or (config.lora_rank and not config.reference_every):
        reference = 0
    row = longest(shape, config) + (copy_charge(config.max_prompt_tokens) if shares_prompts(config) else 0)
    checkpoint = 4 * trained + moments + (4 * size + critic_moments if critic else 0)
    final = 4 * size + (4 * trained if config.lora_rank else 0)
    return Memory(
        copied=(6 if half else 4) * trained if config.overlap != "none" and not ENGINES[config.engine].own_weights else 0,
        overlapped=config.overlap != "none",
        weights=base_bytes(shape, config) + ((6 if half else 4) * trained if config.lora_rank else 0),
        gradients=4 * trained,
        optimizer=moments,
        reference=reference,
        critic=(10 if half else 8) * size + critic_moments if critic else 0,
        # One layer at a time is copied when it grows, and one and a half times when rows leave it.
        kv_cache=rows * longest(shape, config) * entry * (shape.layers + 2),
        # Of one token, in the sampler's float64.
        sampling=rows * shape.vocabulary * (4 + 3 * 8),
        activations=round(WORKING * activation_bytes * max(config.micro_batch_tokens, row)),
        # With its gradient and a working copy.
        logits=chunk_tokens * shape.vocabulary * 3 * 4,
        checkpoints=(config.keep_checkpoints + 1) * (checkpoint + (reference if config.reference_every else 0)) + final,
    )


def base_bytes(shape: ModelShape, config: TrainConfig) -> int:
    """Return the bytes of the model's weights without adapters.

    NF4 (2305.14314) takes half a byte per number, one byte per block of 64 numbers, and four bytes per 256 blocks.
    """
    size, linear = shape.parameters, shape.linear
    if config.lora_base == "4bit":
        return 2 * (size - linear) + linear // 2 + -(-linear // 64) + 4 * -(-linear // (64 * 256))
    if config.lora_base == "bf16":
        return 2 * size
    return (6 if config.dtype == "bf16" else 4) * size


def moment_bytes(tensors: Sequence[int], optimizer: str) -> int:
    """Return the bytes of both of Adam's moments; `tensors` is the number of elements of each trained tensor.

    See `optimizers.build_optimizer` for the moments in 8 bits.
    """
    if optimizer == "adamw":
        return 8 * sum(tensors)
    return sum(8 * size if size < 4096 else 2 * (size + 4 * -(-size // 256)) for size in tensors)


def longest(shape: ModelShape, config: TrainConfig) -> int:
    """Return the largest number of tokens of one row, prompt and completion together."""
    return min(config.max_prompt_tokens + config.max_new_tokens, shape.positions or 2**62)


def shares_prompts(config: TrainConfig) -> bool:
    """Return True if an update runs a prompt once for all completions of its group.

    Only the settings are considered: a model that does not allow this costs more than estimated.
    """
    return config.shared_prefix and not config.gradient_checkpointing


@dataclass(frozen=True)
class Tokens:
    """The numbers of tokens of one step, or of one evaluation."""

    prompts: float
    """Each prompt once."""
    completions: float
    rounds: float = 1.0
    """Rounds of generation in a step: more than one if groups are drawn until enough have a signal (dynamic sampling)."""

    def trained(self, config: TrainConfig) -> float:
        """Return the number of tokens that an update runs through the model.

        A prompt counts once for its group if the update shares prompts, otherwise once per completion.
        """
        return self.prompts * (1 if shares_prompts(config) else config.group_size) + self.completions


def mean_length(observed: Sequence[int], cut: Sequence[bool], most: int) -> float:
    """Estimate the mean length of a completion, in tokens, from a few that were measured under a lower token limit.

    If all measured completions ended before the lower limit, the result is the mean of their lengths. If none ended, it is
    `most`. Otherwise the length that a completion would have without a limit is assumed to be exponentially distributed, with
    the mean (all measured tokens) / (number of completions that ended). The result is the mean of the length under the limit
    `most`: lengths above `most` count as `most`.

    Args:
        observed: measured lengths in tokens.
        cut: True for each completion that the lower limit cut off.
        most: the run's own token limit.
    """
    ends = len(cut) - sum(cut)
    if ends == len(cut):
        return fmean(observed)
    if not ends:
        return most
    mean = sum(observed) / ends
    return mean * -math.expm1(-most / mean)


@dataclass(frozen=True)
class Speed:
    """The speed of generation and update in seconds per token, measured on one step.

    Batches of another size may be somewhat faster or slower.
    """

    prompt_token_s: float
    """Prefill."""
    completion_token_s: float
    """Seconds per sampled token: the time of decoding divided by the tokens of all completions, in the measured step."""
    trained_token_s: float
    """Forward and backward pass with the optimizer's step."""

    def generate(self, tokens: Tokens) -> float:
        """Return the seconds to sample `tokens`, prefill included."""
        return tokens.rounds * (self.prompt_token_s * tokens.prompts + self.completion_token_s * tokens.completions)


def speed_of(tokens: Tokens, generate_s: float, update_s: float, config: TrainConfig) -> Speed:
    """Return the speed of a measured step.

    The time of prefill was not measured. Prefill is a forward pass, and is assumed to take a third of the time that an update
    takes for the same tokens.
    """
    trained_token_s = update_s / tokens.trained(config)
    prefill_s = min(generate_s, trained_token_s / 3 * tokens.prompts)
    return Speed(prefill_s / tokens.prompts, (generate_s - prefill_s) / tokens.completions, trained_token_s)


def evaluations(config: TrainConfig) -> int:
    """Return how many evaluations a run has: before the first step, after every `eval_every` steps, and after the last."""
    return 1 + -(-config.steps // config.eval_every) if config.eval_every else 0
