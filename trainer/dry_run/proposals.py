"""Settings that would lower the memory of a run, with the figures that they would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.dry_run.formulas import Memory

GIB = 2**30
TIGHT = 0.75
"""Share of the free memory above which a run is told how to need less."""
WORTH = 0.85
"""A setting is proposed only if it lowers the memory to at most this share."""
LEAST_MICRO_BATCH = 512
"""Micro-batches of fewer tokens are not proposed: matrix products get slow."""
RECOMPUTED = 4 / 3
"""Ratio of an update's operations with gradient checkpointing to those without, for the same tokens: one more forward pass."""
RANK = 16
"""Rank of the adapters that are proposed."""

Pair = tuple[Memory, Memory]
"""A run's memory as expected, and at most."""


@dataclass(frozen=True)
class Proposal:
    """A setting that would lower the memory of a run."""

    setting: str
    value: Any
    expected_bytes: int
    """Memory of the whole run with it, as expected."""
    most_bytes: int
    costs: str
    """Its effect on speed and results."""

    def __str__(self) -> str:
        """Return the proposal in a line."""
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        sizes = f"{format_bytes(self.expected_bytes)} expected, {format_bytes(self.most_bytes)} at most"
        return f"{self.setting}: {value} would need {sizes}; {self.costs}"


def format_bytes(size: float) -> str:
    """Return `size` bytes in words, such as `1.25 GiB`."""
    return f"{size / GIB:,.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.1f} MiB"


def propose(
    config: TrainConfig,
    free: int | None,
    needs: Pair,
    memory_of: Callable[[TrainConfig], Pair],
    again: float,
) -> Iterator[Proposal]:
    """Yield settings that help if memory is tight, or if activations are most of it.

    Args:
        config: the run.
        free: bytes that the run can have; None if unknown.
        needs: the run's memory.
        memory_of: returns the memory of the run with other settings.
        again: ratio of the tokens that an update runs with gradient checkpointing, which does not share prompts, to the
            tokens that it runs now.
    """
    expected, most = needs
    tight = free is not None and (expected.peak > TIGHT * free or most.peak > free)
    activations = expected.activations > expected.peak / 2
    if not tight and not activations:
        return

    def tried(costs: str, **change: Any) -> Iterator[Proposal]:
        [(setting, value)] = change.items()
        one, other = memory_of(config.model_copy(update=change))
        if one.peak <= WORTH * expected.peak or (tight and other.peak <= WORTH * most.peak):
            yield Proposal(setting, value, one.peak, other.peak, costs)

    smaller = micro_batch(config, free, memory_of)
    if smaller is not None:
        yield from tried("the same results but for rounding, about the same speed", micro_batch_tokens=smaller)
    tokens = smaller or config.micro_batch_tokens
    if not config.gradient_checkpointing and not _small(
        memory_of(config.model_copy(update={"micro_batch_tokens": tokens})), free
    ):
        yield from tried(f"updates take up to {again * RECOMPUTED:.1f} times as long", gradient_checkpointing=True)
    if not config.lora_rank and free is not None and expected.process + expected.standing > free / 2:
        yield from tried("trains adapters only, with a learning rate about 10 times as high", lora_rank=RANK)


def _small(needs: Pair, free: int | None) -> bool:
    """Return True if activations are no more than half of the memory, and the run fits comfortably into `free` bytes."""
    fits = free is None or needs[1].peak <= TIGHT * free
    return fits and all(one.activations <= one.peak / 2 for one in needs)


def micro_batch(config: TrainConfig, free: int | None, memory_of: Callable[[TrainConfig], Pair]) -> int | None:
    """Return the largest power of two of tokens with which activations are no longer most of the memory.

    With it, the run also fits comfortably into `free` bytes, if that can be reached. None if no smaller number is allowed.
    """
    best, least = None, None
    tokens = 1 << (config.micro_batch_tokens - 1).bit_length() - 1
    while tokens >= LEAST_MICRO_BATCH:
        both = memory_of(config.model_copy(update={"micro_batch_tokens": tokens}))
        activations = sum(needs.activations for needs in both)
        if least is not None and activations >= least:  # single rows are longer than this
            break
        best, least = tokens, activations
        if _small(both, free):
            break
        tokens //= 2
    return best
