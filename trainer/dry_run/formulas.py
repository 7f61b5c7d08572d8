"""What a run needs, as arithmetic: bytes by purpose, tokens, and seconds from a few measured steps. Pure functions.

Legend: P prompts, G samples a prompt.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.logprobs.shared_prefix import copy_charge

WORKING = 1.5
"""Memory of an update over what its forward pass keeps, because gradients of activations come on top on the way back. The
quickstart's model took 1.39 to 1.56 times that in five shapes of batch, the chunk of logits included, which counts apart."""


@dataclass(frozen=True)
class Outline:
    """What matters of a model."""

    parameters: int
    layers: int
    kv_heads: int
    head_size: int
    vocabulary: int
    positions: int | None
    """Most tokens of prompt and completion together; None where the model sets no limit."""
    trained: tuple[int, ...]
    """Numbers in each tensor that is trained: the model's, or its adapters'."""
    tensors: tuple[int, ...]
    """Numbers in each tensor of the model without adapters; a critic trains them all."""
    linear: int = 0
    """Of the parameters those in linear layers other than the head, which 4 bits make smaller."""


@dataclass(frozen=True)
class Memory:
    """Bytes, upper bounds."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    critic: int
    """Its weights, gradients and optimizer."""
    kv_cache: int
    sampling: int
    """Logits of one step of decoding, in the sampler's float64."""
    activations: int
    """Of a micro-batch, with the gradients of some of them."""
    logits: int
    """A chunk of logits in the update, with its gradient and a working copy."""
    checkpoints: int
    """On disk, with the one being written and the final model."""

    @property
    def standing(self) -> int:
        """What is there all the time."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.critic

    @property
    def peak(self) -> int:
        """Generation and update take turns."""
        return self.standing + max(self.kv_cache + self.sampling, self.activations + self.logits)


def memory(outline: Outline, config: TrainConfig, activation_bytes: float, chunk_tokens: int) -> Memory:
    """Return the memory of a run.

    Weights, gradients and both moments of AdamW are fp32, the moments under adamw_8bit in 8 bits, the critic's too; under bf16
    the forward pass holds a bfloat16 copy of the weights.
    With adapters, gradients and moments are theirs alone, and the reference is the policy without them, or with a second set of
    them where it is replaced. Checkpoints hold the weights of a reference that is replaced. The copy of the weights
    that they are merged into at the end is not counted; it is made in the machine's memory, not in the GPU's.

    Args:
        outline: the model.
        config: the run.
        activation_bytes: kept for the backward pass by one token of a micro-batch, as measured.
        chunk_tokens: tokens whose logits are in memory at a time in the update.
    """
    size, trained = outline.parameters, sum(outline.trained)
    half, critic = config.dtype == "bf16", config.advantage == "gae"
    rows = min(config.generation_rows, config.prompts_per_step * config.group_size)
    positions = rows * longest(outline, config)
    # Under bf16 too: rotary positions are fp32 and make keys so, and a cache has one dtype.
    entry = 2 * outline.kv_heads * outline.head_size * 4
    saved = 4 * trained + moment_bytes(outline.trained, config.optimizer)
    critic_moments = moment_bytes(outline.tensors, config.optimizer)
    reference = 4 * trained if config.lora_rank else 4 * size
    if config.kl_coef == 0 or (config.lora_rank and not config.reference_every):
        reference = 0
    row = longest(outline, config) + (copy_charge(config.max_prompt_tokens) if shares_prompts(config) else 0)
    return Memory(
        weights=base_bytes(outline, config) + ((6 if half else 4) * trained if config.lora_rank else 0),
        gradients=4 * trained,
        optimizer=moment_bytes(outline.trained, config.optimizer),
        reference=reference,
        critic=(10 if half else 8) * size + critic_moments if critic else 0,
        # One layer at a time is copied when it grows, and one and a half times when rows leave it.
        kv_cache=positions * entry * (outline.layers + 2),
        sampling=rows * outline.vocabulary * (4 + 3 * 8),
        activations=round(WORKING * activation_bytes * max(config.micro_batch_tokens, row)),
        logits=chunk_tokens * outline.vocabulary * 3 * 4,
        checkpoints=(config.keep_checkpoints + 1)
        * (saved + (4 * size + critic_moments if critic else 0) + (reference if config.reference_every else 0))
        + 4 * size
        + (4 * trained if config.lora_rank else 0),
    )


def base_bytes(outline: Outline, config: TrainConfig) -> int:
    """Return the bytes of the model's weights without adapters.

    NF4 (2305.14314) takes half a byte a number, one byte for each block of 64 and four for each 256 of these.
    """
    size, linear = outline.parameters, outline.linear
    if config.lora_base == "4bit":
        return 2 * (size - linear) + linear // 2 + -(-linear // 64) + 4 * -(-linear // (64 * 256))
    if config.lora_base == "bf16":
        return 2 * size
    return (6 if config.dtype == "bf16" else 4) * size


def moment_bytes(tensors: Sequence[int], optimizer: str) -> int:
    """Return the bytes of both moments for tensors of these sizes; see `optimizers.build_optimizer` for 8 bits."""
    if optimizer == "adamw":
        return 8 * sum(tensors)
    return sum(8 * size if size < 4096 else 2 * (size + 4 * -(-size // 256)) for size in tensors)


def longest(outline: Outline, config: TrainConfig) -> int:
    """Return the most tokens of one row, prompt and completion."""
    return min(config.max_prompt_tokens + config.max_new_tokens, outline.positions or 2**62)


@dataclass(frozen=True)
class Lengths:
    """Tokens of the rows of one step."""

    prompts: tuple[int, ...]
    """P lengths."""
    completions: tuple[int, ...]
    """P * G lengths."""

    @property
    def read(self) -> int:
        """Prompt tokens, each prompt once."""
        return sum(self.prompts)

    @property
    def written(self) -> int:
        """Completion tokens."""
        return sum(self.completions)


def spread(observed: Sequence[int], cut: Sequence[bool], count: int, most: int) -> tuple[int, ...]:
    """Return `count` completion lengths as one may expect them from a few.

    Where all ended by themselves they are repeated. Where some were cut off, lengths are taken as exponential, whose mean is
    estimated by all tokens over the number of ends; where none ended, that is the upper bound.

    Args:
        observed: lengths in tokens.
        cut: which were cut off.
        count: how many are wanted.
        most: upper bound of a length.
    """
    if not any(cut):
        return tuple(observed[i * len(observed) // count] if count > len(observed) else observed[i] for i in range(count))
    ends = len(cut) - sum(cut)
    mean = sum(observed) / ends if ends else math.inf
    quantiles = [-math.log(1 - (i + 0.5) / count) for i in range(count)]
    return tuple(most if q * mean >= most else max(1, round(q * mean)) for q in quantiles)


@dataclass(frozen=True)
class Timing:
    """One measured step."""

    rows: Lengths
    generate_s: float
    update_s: float


@dataclass(frozen=True)
class Speed:
    """Seconds, as fitted: generation pays for each step of decoding and for each row in it, an update for each token."""

    decode_step_s: float
    decode_row_s: float
    update_fixed_s: float
    update_token_s: float

    def generate(self, rows: Lengths, rows_at_a_time: int, refills: bool = True) -> float:
        """Return the time to write these completions, prefill included; see `decode_steps`."""
        steps = decode_steps(rows.completions, rows_at_a_time, refills)
        prefill_s = self.update_token_s / 3 * rows.read  # an update's forward pass is a third of it
        return prefill_s + self.decode_step_s * steps + self.decode_row_s * rows.written

    def update(self, rows: Lengths, share_prompts: bool) -> float:
        """Return the time to train on these completions."""
        return self.update_fixed_s + self.update_token_s * trained_tokens(rows, share_prompts)


def decode_steps(completions: Sequence[int], rows_at_a_time: int, refills: bool = True) -> int:
    """Return the steps of decoding that completions of such lengths take.

    Where a model `refills` (see `decoders.Decoder`), a row that waits takes the place of one that has ended; a share of the
    places has to be free first, which is left out here. Elsewhere all rows of a part end before the next part begins.

    Args:
        completions: tokens of each, in the order in which they begin.
        rows_at_a_time: places.
        refills: whether rows come while others are there.
    """
    if not refills:
        starts = range(0, len(completions), rows_at_a_time)
        return sum(max(completions[start : start + rows_at_a_time]) for start in starts)
    ends = [0] * min(rows_at_a_time, len(completions))  # of the row in each place, a heap
    for length in completions:
        heapq.heapreplace(ends, ends[0] + length)
    return max(ends, default=0)


def shares_prompts(config: TrainConfig) -> bool:
    """Return whether an update runs a prompt once for its group; a model that does not allow it costs more than priced."""
    return config.shared_prefix and not config.gradient_checkpointing


def trained_tokens(rows: Lengths, share_prompts: bool) -> int:
    """Return the tokens that an update runs through: a shared prompt once, otherwise with each of its completions."""
    samples = 1 if share_prompts else len(rows.completions) // len(rows.prompts)
    return rows.read * samples + rows.written


def fit_speed(timings: Sequence[Timing], share_prompts: bool, rows_at_a_time: int, refills: bool = True) -> Speed:
    """Return the speed that explains the measured steps, none of its parts below 0; see `decode_steps`."""
    fixed, token = line([(trained_tokens(t.rows, share_prompts), t.update_s) for t in timings])
    points = []
    for timing in timings:
        steps = decode_steps(timing.rows.completions, rows_at_a_time, refills)
        decoding = max(0.0, timing.generate_s - token / 3 * timing.rows.read)
        points.append((timing.rows.written / steps, decoding / steps))
    step, row = line(points)
    return Speed(decode_step_s=step, decode_row_s=row, update_fixed_s=fixed, update_token_s=token)


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return (intercept, slope) of the least-squares line with neither below 0. A single point gives a line through 0."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread_x = sum((x - mean_x) ** 2 for x, _ in points)
    through_zero = sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    if spread_x == 0:
        return 0.0, through_zero
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread_x
    if slope < 0:
        return mean_y, 0.0
    intercept = mean_y - slope * mean_x
    return (intercept, slope) if intercept >= 0 else (0.0, through_zero)


def evaluations(config: TrainConfig) -> int:
    """Return how many evaluations a run has: before the first step, every so many, after the last."""
    if not config.eval_every:
        return 0
    return 1 + config.steps // config.eval_every + (config.steps % config.eval_every > 0)
