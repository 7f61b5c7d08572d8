"""Pure functions that compute the memory of a run: bytes by purpose.

The update holds one micro-batch at a time. Its size is computed by the rules by which the update itself divides rows
(`forward.micro_batches`), from lengths of prompts and completions: a small step fills less than `micro_batch_tokens`, and so do
rows of unequal lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.logprobs.forward import micro_batches
from verigym.trainer.logprobs.shared_prefix import PROMPT_SHARE, copy_charge

WORKING_LAYERS = 2
"""Layers whose activations the backward pass holds once more: the gradients of one layer's activations, and what that layer
computes again or has not yet freed. Measured on a CPU with 30 layers and batches of four shapes: 1 to 3 layers."""
SPARE = 1.25
"""Room in the KV cache over the tokens that are there; see `engines.native.prefix_cache`."""


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
    head: int = 0
    """Number of parameters of the output matrix, if it is trained; 0 with adapters, which leave it as it is."""


@dataclass(frozen=True)
class Kept:
    """Bytes that a forward pass keeps for the backward pass, as `kept.measure_kept` measures them."""

    token: float
    """By a token of a micro-batch in all layers, without gradient checkpointing."""
    checkpointed: float
    """The same with gradient checkpointing: the inputs of the layers."""
    copied: float = 0.0
    """By a token of a shared prompt, for each row that continues from it: the row's copy of the keys and values."""


@dataclass(frozen=True)
class MicroBatch:
    """The tokens of a micro-batch, padding included, with those of the shared prompts that stay in memory beside it."""

    tokens: int
    copies: int = 0
    """Tokens of shared prompts, once for each row that has a copy of their keys and values."""


@dataclass(frozen=True)
class Lengths:
    """The tokens of a step, one entry per prompt."""

    prompts: tuple[int, ...]
    completions: tuple[tuple[int, ...], ...]
    """The completions of each prompt."""

    @classmethod
    def most(cls, shape: ModelShape, config: TrainConfig) -> Lengths:
        """Return a step whose prompts and completions are all as long as `config` and the model allow."""
        room = longest(shape, config)
        completion = min(config.max_new_tokens, room)
        rows = ((completion,) * config.group_size,) * config.prompts_per_step
        return cls((min(config.max_prompt_tokens, room),) * config.prompts_per_step, rows)


@dataclass(frozen=True)
class Decoding:
    """How the engine `native` holds a model while it samples."""

    shared: bool = False
    """Whether rows of a prompt share its keys and values."""
    copied: int = 0
    """Bytes of weights that are copied for sampling: small matrices are joined and transposed."""


@dataclass(frozen=True)
class Memory:
    """A run's memory, in bytes. `estimate.purposes` explains each field."""

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
    together: bool = False
    """Whether the memory of generation and update adds up: the run overlaps them, or it is on a CPU, where the C library keeps
    most of what one of them has freed while the other takes new memory for tensors of other sizes."""
    sampler: int = 0
    """Copies of weights while completions are sampled."""
    head: int = 0
    """A micro-batch's gradient of the output matrix, which exists before that of the other layers."""
    process: int = 0
    """On a CPU, the process itself before the model is loaded: Python and its libraries."""

    @property
    def standing(self) -> int:
        """Return the bytes that the model needs during the whole run."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.critic + self.copied

    @property
    def generation(self) -> int:
        """Return the bytes that are held only while completions are sampled."""
        return self.kv_cache + self.sampling + self.sampler

    @property
    def update(self) -> int:
        """Return the bytes that are held only during an update."""
        return self.activations + self.logits + self.head

    @property
    def peak(self) -> int:
        """Return the most bytes held at a time."""
        work = self.generation + self.update if self.together else max(self.generation, self.update)
        return self.process + self.standing + work


def memory(
    shape: ModelShape,
    config: TrainConfig,
    lengths: Lengths,
    kept: Kept,
    chunk_tokens: int,
    decoding: Decoding = Decoding(),
    *,
    device: str = "cpu",
    process: int = 0,
) -> Memory:
    """Return the memory that a run needs for steps of the given lengths.

    Weights, gradients and optimizer moments are fp32, for policy and critic alike; with adamw_8bit, the moments have 8 bits
    instead. With dtype bf16, the forward pass also holds a bfloat16 copy of the weights. With adapters, only the adapters have
    gradients and moments, and the reference model is the policy without adapters. If the reference is replaced during the run,
    it is a second set of adapters instead. The model with merged adapters that is exported at the end is not counted.

    Args:
        shape: the sizes of the model.
        config: the settings of the run.
        lengths: the tokens of a step.
        kept: the bytes that a forward pass keeps.
        chunk_tokens: number of tokens whose logits the update holds at a time.
        decoding: how the model is held while completions are sampled.
        device: type of the device.
        process: bytes of the process before the model is loaded.
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
    checkpoint = 4 * trained + moments + (4 * size + critic_moments if critic else 0)
    final = 4 * size + (4 * trained if config.lora_rank else 0)
    return Memory(
        copied=(6 if half else 4) * trained if config.overlap != "none" and not ENGINES[config.engine].own_weights else 0,
        together=config.overlap != "none" or device == "cpu",
        weights=base_bytes(shape, config) + ((6 if half else 4) * trained if config.lora_rank else 0),
        gradients=4 * trained,
        optimizer=moments,
        reference=reference,
        critic=(10 if half else 8) * size + critic_moments if critic else 0,
        # One layer at a time is copied when it grows, and one and a half times when rows leave it.
        kv_cache=round(cached_tokens(shape, config, lengths, rows, decoding.shared) * entry * (shape.layers + 2)),
        # Of one token, in the sampler's float64.
        sampling=rows * shape.vocabulary * (4 + 3 * 8),
        activations=max(
            round(activation_bytes(batch, kept, config.gradient_checkpointing, shape.layers))
            for batch in update_batches(lengths, config, device)
        ),
        # With its gradient and a working copy.
        logits=chunk_tokens * shape.vocabulary * 3 * 4,
        checkpoints=(config.keep_checkpoints + 1) * (checkpoint + (reference if config.reference_every else 0)) + final,
        sampler=decoding.copied,
        head=4 * shape.head,
        process=process,
    )


def activation_bytes(batch: MicroBatch, kept: Kept, checkpointing: bool, layers: int) -> float:
    """Return the bytes of activations that the backward pass of `batch` holds when it holds the most."""
    token = kept.checkpointed if checkpointing else kept.token
    return batch.tokens * (token + WORKING_LAYERS * kept.token / max(1, layers)) + batch.copies * kept.copied


def update_batches(lengths: Lengths, config: TrainConfig, device: str) -> Iterator[MicroBatch]:
    """Yield the micro-batches of the first update on a step of the given lengths, as `shared_prefix` makes them."""
    prompts = lengths.prompts[:: config.updates_per_step]
    completions = lengths.completions[:: config.updates_per_step]
    budget = config.micro_batch_tokens
    if not shares_prompts(config):
        rows = [prompt + length for prompt, group in zip(prompts, completions, strict=True) for length in group]
        for batch in micro_batches(rows, budget, device):
            yield MicroBatch(len(batch) * rows[batch[0]])
        return
    for bundle in micro_batches(prompts, budget // PROMPT_SHARE, device):
        longest_prompt = prompts[bundle[0]]
        texts = [length for number in bundle for length in completions[number]]
        charges = [length + copy_charge(longest_prompt) for length in texts]
        for batch in micro_batches(charges, budget - len(bundle) * longest_prompt, device):
            held = len(bundle) * longest_prompt + len(batch) * texts[batch[0]]
            yield MicroBatch(held, len(batch) * longest_prompt)


def cached_tokens(shape: ModelShape, config: TrainConfig, lengths: Lengths, rows: int, shared: bool) -> float:
    """Return the tokens whose keys and values are held while `rows` rows are sampled."""
    prompt, completion = max(lengths.prompts), max(map(max, lengths.completions))
    if shared:
        return -(-rows // config.group_size) * prompt + rows * completion * SPARE
    return rows * min(prompt + completion, longest(shape, config))


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
