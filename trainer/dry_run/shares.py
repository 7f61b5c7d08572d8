"""Memory per process in a run of several processes, from the model's configuration alone. Nothing is loaded or measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.table import Table

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.dry_run.estimate import model_shape, purposes
from verigym.trainer.dry_run.formulas import Kept, Lengths, Memory, ModelShape, base_bytes, memory, moment_bytes
from verigym.trainer.dry_run.proposals import format_bytes
from verigym.trainer.logprobs.chunked import chunk_tokens

LAYERS_HELD = 2
"""Layers that a process of `shard: full` holds at once: the one that runs, and the one that is fetched meanwhile."""


def process_memory(shape: ModelShape, config: TrainConfig, processes: int) -> Memory:
    """Return the memory of the process that needs the most, without activations, which can only be measured.

    Args:
        shape: the sizes of the model.
        config: the settings of the run.
        processes: number of processes that train the model together, one per device.
    """
    chunk = min(config.logprob_chunk or chunk_tokens(shape.vocabulary, config.device), config.micro_batch_tokens)
    prompts = -(-config.prompts_per_step // processes)
    share = config.model_copy(update={"prompts_per_step": prompts})
    device = "cpu" if config.device == "cpu" else "cuda"
    needs = memory(shape, share, Lengths.most(shape, share), Kept(0.0, 0.0), chunk, device=device)
    if processes == 1:
        return needs

    def cut(size: int) -> int:
        return -(-size // processes)

    size, half, full = shape.parameters, config.dtype == "bf16", config.shard == "full"
    held = LAYERS_HELD * shape.layer
    critic = 0
    if config.advantage == "gae":
        critic = cut(8 * size + moment_bytes(shape.tensors, config.optimizer))
        if not full:  # whole weights and gradients while it runs; rows of both, and of the moments, at rest
            critic += (10 if half else 8) * size
    if config.lora_rank:
        weights = needs.weights  # each process holds the policy
        if full:
            # Of the base only rows, and what is gathered; under bf16 with bfloat16 copies of what runs, if it is fp32.
            number = 2 if config.lora_base == "bf16" else 4
            copies = 2 * (shape.ends + shape.layer) if half and number == 4 else 0
            weights += cut(number * size) + number * (shape.ends + held) + copies - base_bytes(shape, config)
        return replace(needs, weights=weights, critic=critic)
    if not full:
        return replace(
            needs,
            weights=base_bytes(shape, config) + cut(4 * size),
            gradients=4 * size + cut(4 * size),
            optimizer=cut(needs.optimizer),
            reference=cut(needs.reference),  # whole only while the policy has no gradients
            critic=critic,
        )
    return replace(
        needs,
        weights=cut(4 * size) + 4 * (shape.ends + held) + (2 * (shape.ends + shape.layer) if half else 0),
        gradients=cut(4 * size) + 4 * (shape.ends + held),  # one that is computed and one that is being summed
        optimizer=cut(needs.optimizer),
        reference=cut(needs.reference),
        critic=critic,
    )


def plan_memory(config: TrainConfig, processes: int) -> tuple[Table, dict[str, Any]]:
    """Return the table that `verigym train --dry-run --processes N` prints for `processes`, and the same numbers as data.

    Raises:
        UsageError: there is no such model, or it takes no such adapters.
    """
    shape = model_shape(config.model, config)
    needs = process_memory(shape, config, processes)
    how = f"shard {config.shard}"
    if config.lora_rank:
        how = "adapters whole, shard full" if config.shard == "full" else "adapters, a whole model each"
    title = f"{shape.parameters:,} parameters, {config.dtype}, {processes} processes, {how}"
    table = Table(
        title=title, title_justify="left", caption="without activations, which --dry-run measures without --processes"
    )
    table.add_column("memory of a process, at most")
    table.add_column("", justify="right")
    for name, size in purposes(needs).items():
        if size:
            table.add_row(name, format_bytes(size))
    table.add_section()
    table.add_row("all but activations", format_bytes(needs.peak), end_section=True)
    table.add_row("checkpoints on disk", format_bytes(needs.checkpoints))
    parts = {name: getattr(needs, name) for name in ("weights", "gradients", "optimizer", "reference", "critic", "kv_cache")}
    return table, {
        "parameters": shape.parameters,
        "processes": processes,
        "memory_bytes": {**parts, "sampling": needs.sampling, "logits": needs.logits, "head": needs.head, "peak": needs.peak},
        "checkpoint_bytes": needs.checkpoints,
    }
