"""Settings that are proposed: only where they help, with the figure that they give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.formulas import Kept, Lengths, Memory, ModelShape, memory
from verigym.trainer.dry_run.proposals import LEAST_MICRO_BATCH, Proposal, micro_batch, propose

MIB = 2**20
MODEL = ModelShape(
    parameters=MIB, layers=30, kv_heads=1, head_size=4, vocabulary=10, positions=4096, trained=(MIB,), tensors=(MIB,)
)
ADAPTED = ModelShape(**{**MODEL.__dict__, "trained": (1000,)})
SHORT = Lengths((30,) * 16, ((50,) * 8,) * 16)


def config(**fields: Any) -> TrainConfig:
    base: dict[str, Any] = {"model": "m", "output": Path("o"), "sources": (SourceConfig(environment="arithmetic"),)}
    return TrainConfig(**base | fields)


def both(settings: TrainConfig, token: float) -> tuple[Memory, Memory]:
    """Return the memory as expected and at most, of a model with 16 MiB of weights, gradients and moments."""
    shape, kept = ADAPTED if settings.lora_rank else MODEL, Kept(token, token / 20)
    expected, most = (memory(shape, settings, lengths, kept, 16) for lengths in (SHORT, Lengths.most(shape, settings)))
    return expected, most


def proposed(settings: TrainConfig, free: int | None, token: float) -> dict[str, Proposal]:
    found = propose(settings, free, both(settings, token), lambda changed: both(changed, token), again=1.5)
    return {proposal.setting: proposal for proposal in found}


def test_a_run_that_fits_easily_gets_no_proposals() -> None:
    assert not proposed(config(), 2**40, token=100.0)
    assert not proposed(config(), None, token=100.0)


@pytest.mark.parametrize("free", [2**40, None])
def test_activations_that_are_most_of_the_memory_are_named_with_what_would_be_left(free: int | None) -> None:
    found = proposed(config(), free, token=8_000.0)
    assert list(found) == ["micro_batch_tokens"], "it is enough, and costs nothing"
    smaller = found["micro_batch_tokens"]
    with_it = both(config(micro_batch_tokens=smaller.value), 8_000.0)
    assert (smaller.expected_bytes, smaller.most_bytes) == tuple(needs.peak for needs in with_it)
    assert all(needs.activations <= needs.peak / 2 for needs in with_it)
    larger = both(config(micro_batch_tokens=2 * smaller.value), 8_000.0)
    assert any(needs.activations > needs.peak / 2 for needs in larger), "no smaller than need be"


def test_checkpointing_is_proposed_where_smaller_micro_batches_are_not_enough() -> None:
    settings = config(micro_batch_tokens=2 * LEAST_MICRO_BATCH)
    found = proposed(settings, 45 * MIB, token=40_000.0)
    assert list(found) == ["micro_batch_tokens", "gradient_checkpointing"]
    line = str(found["gradient_checkpointing"])
    assert line.startswith("gradient_checkpointing: true would need ")
    assert line.endswith("; updates take up to 2.0 times as long"), "4/3 of 1.5"


def test_a_machine_that_is_too_small_gets_adapters_proposed() -> None:
    found = proposed(config(), 18 * MIB, token=100.0)
    assert found["lora_rank"].value == 16
    assert found["lora_rank"].expected_bytes < 15 * MIB < both(config(), 100.0)[0].standing
    assert "lora_rank" not in proposed(config(lora_rank=4), 6 * MIB, token=100.0)


def test_a_setting_that_is_set_is_not_proposed() -> None:
    found = proposed(config(gradient_checkpointing=True, micro_batch_tokens=LEAST_MICRO_BATCH), 18 * MIB, token=20_000.0)
    assert list(found) == ["lora_rank"]


def test_micro_batches_get_no_smaller_than_a_row() -> None:
    long = config(max_prompt_tokens=2000, max_new_tokens=2000)
    tokens = micro_batch(long, 2**20, lambda changed: (both(changed, 20_000.0)[1],) * 2)
    assert tokens is not None and tokens >= 2048
    assert micro_batch(config(micro_batch_tokens=LEAST_MICRO_BATCH), None, lambda changed: both(changed, 1.0)) is None
