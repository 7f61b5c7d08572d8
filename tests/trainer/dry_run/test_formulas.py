"""A run's memory as arithmetic: bytes by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.formulas import (
    SPARE,
    WORKING_LAYERS,
    Decoding,
    Kept,
    Lengths,
    Memory,
    MicroBatch,
    ModelShape,
    activation_bytes,
    longest,
    shares_prompts,
    update_batches,
)
from verigym.trainer.dry_run.formulas import memory as memory_of

MODEL = ModelShape(
    parameters=1000, layers=3, kv_heads=2, head_size=4, vocabulary=10, positions=64, trained=(900, 100), tensors=(900, 100)
)
ADAPTED = replace(MODEL, parameters=100_000, linear=65_536, trained=(8192, 100), tensors=(99_840, 160))


def config(**fields: Any) -> TrainConfig:
    base: dict[str, Any] = {
        "model": "m",
        "output": Path("o"),
        "sources": (SourceConfig(environment="arithmetic"),),
        "prompts_per_step": 2,
        "group_size": 4,
        "max_prompt_tokens": 30,
        "max_new_tokens": 20,
        "micro_batch_tokens": 100,
    }
    return TrainConfig(**base | fields)


def memory(shape: ModelShape, settings: TrainConfig, token: float = 0.0, chunk: int = 16, **how: Any) -> Memory:
    """Return the memory of the longest steps, with `token` kept bytes for each token."""
    return memory_of(shape, settings, Lengths.most(shape, settings), Kept(token, token / 10), chunk, **how)


def test_adapters_need_gradients_and_moments_of_their_own_alone() -> None:
    needs = memory(ADAPTED, config(lora_rank=2, kl_coef=0.1, keep_checkpoints=2))
    assert (needs.weights, needs.gradients, needs.optimizer) == (400_000 + 4 * 8292, 4 * 8292, 8 * 8292)
    assert needs.reference == 0, "the policy without its adapters"
    assert needs.checkpoints == 3 * 12 * 8292 + 400_000 + 4 * 8292, "the final model is a whole one"
    replaced = memory(ADAPTED, config(lora_rank=2, kl_coef=0.1, keep_checkpoints=2, reference_every=5))
    assert replaced.reference == 4 * 8292, "a second set of adapters"
    assert replaced.checkpoints == 3 * 16 * 8292 + 400_000 + 4 * 8292
    whole = memory(replace(ADAPTED, trained=(100_000,)), config(kl_coef=0.1))
    assert (whole.weights, whole.gradients, whole.optimizer, whole.reference) == (400_000, 400_000, 800_000, 400_000)


@pytest.mark.parametrize(
    ("base", "weights"), [("fp32", 600_000), ("bf16", 200_000), ("4bit", 2 * 34_464 + 32_768 + 1024 + 4 * 4)]
)
def test_the_base_may_have_fewer_bits(base: str, weights: int) -> None:
    needs = memory(ADAPTED, config(lora_rank=2, lora_base=base, dtype="bf16"))
    assert needs.weights == weights + 6 * 8292


def test_moments_in_8_bits() -> None:
    """Two moments of a byte a number and a scale of four bytes for each 256; the small tensor keeps two of four bytes."""
    needs = memory(ADAPTED, config(lora_rank=2, optimizer="adamw_8bit"))
    assert needs.optimizer == 2 * (8192 + 32 * 4) + 8 * 100


def test_the_critic_has_the_optimizer_of_the_run() -> None:
    """Its moments are those of the whole model, adapters or not."""
    plain = memory(ADAPTED, config(advantage="gae", lora_rank=2, keep_checkpoints=1))
    small = memory(ADAPTED, config(advantage="gae", lora_rank=2, keep_checkpoints=1, optimizer="adamw_8bit"))
    moments = 2 * (99_840 + 390 * 4) + 8 * 160
    assert (plain.critic, small.critic) == (16 * 100_000, 8 * 100_000 + moments)
    adapters = plain.optimizer - small.optimizer
    assert plain.checkpoints - small.checkpoints == 2 * (8 * 100_000 - moments + adapters), "the one being written too"


def test_memory_in_fp32_by_hand() -> None:
    needs = memory(replace(MODEL, head=100), config(), 7.5, process=70)
    assert (needs.weights, needs.gradients, needs.optimizer, needs.reference) == (4000, 4000, 8000, 0)
    assert needs.kv_cache == 8 * 50 * (2 * 2 * 4 * 4) * 5, (
        "8 rows of 50 tokens, keys and values of 2 heads of 4, 3 layers and two for copies"
    )
    assert needs.sampling == 8 * 10 * 28
    assert (needs.logits, needs.head) == (16 * 10 * 12, 400)
    assert needs.standing == 16000
    assert needs.generation == needs.kv_cache + needs.sampling
    assert needs.update == needs.activations + needs.logits + needs.head
    assert needs.peak == 70 + 16000 + needs.generation + needs.update, "freed memory stays with the process"
    assert needs.checkpoints == (3 * 12 + 4) * 1000


def test_a_decoder_that_shares_prompts_holds_each_once() -> None:
    needs = memory(MODEL, config(), decoding=Decoding(shared=True, copied=5000))
    assert needs.kv_cache == (2 * 30 + 8 * 20 * SPARE) * (2 * 2 * 4 * 4) * 5
    assert needs.generation == needs.kv_cache + needs.sampling + 5000


def test_activations_are_those_of_the_largest_micro_batch() -> None:
    """In 100 tokens there is room for a prompt of 30 and two rows of 20, each with a quarter of 30 for its copy of it."""
    lengths = Lengths.most(MODEL, config())
    assert max(batch.tokens for batch in update_batches(lengths, config(), "cpu")) == 30 + 2 * 20
    assert memory(MODEL, config(), 7.5).activations == round(70 * (7.5 + WORKING_LAYERS * 2.5))
    whole = config(micro_batch_tokens=8192)
    assert list(update_batches(lengths, whole, "cpu")) == [MicroBatch(2 * 30 + 8 * 20, 8 * 30)], "a small step is all there is"
    apart = config(micro_batch_tokens=8192, shared_prefix=False)
    assert list(update_batches(lengths, apart, "cpu")) == [MicroBatch(8 * 50)]
    assert list(update_batches(lengths, apart.model_copy(update={"updates_per_step": 2}), "cpu")) == [MicroBatch(4 * 50)]


def test_rows_of_unequal_lengths_fill_less() -> None:
    lengths = Lengths((10,), ((400, 5, 5, 5),))
    batches = list(update_batches(lengths, config(micro_batch_tokens=8192, max_new_tokens=400), "cpu"))
    assert batches == [MicroBatch(10 + 400, 10), MicroBatch(10 + 15, 30)], "not 4 rows of 400"


def test_checkpointing_holds_the_inputs_of_layers_and_the_activations_of_some() -> None:
    kept, batch = Kept(token=300.0, checkpointed=20.0, copied=4.0), MicroBatch(10, 50)
    assert activation_bytes(batch, kept, False, 30) == 10 * (300 + WORKING_LAYERS * 10) + 50 * 4
    assert activation_bytes(batch, kept, True, 30) == 10 * (20 + WORKING_LAYERS * 10) + 50 * 4


def test_what_changes_memory() -> None:
    base = memory(MODEL, config(), 2000.0)
    assert base.update > base.generation
    gpu = memory(MODEL, config(), 2000.0, device="cuda")
    assert gpu.peak == gpu.standing + gpu.update, "generation and update take turns"
    overlapped = memory(MODEL, config(overlap="one_step"), 2000.0, device="cuda")
    assert overlapped.peak == overlapped.standing + overlapped.generation + overlapped.update
    half = memory(MODEL, config(dtype="bf16"), 2000.0)
    assert (half.weights, half.kv_cache, half.optimizer) == (6000, base.kv_cache, 8000)
    kept = memory(MODEL, config(kl_coef=0.1), 2000.0)
    assert kept.reference == 4000
    replaced = memory(MODEL, config(kl_coef=0.1, reference_every=5), 2000.0)
    assert replaced.reference == 4000, "replaced in place"
    assert replaced.checkpoints - kept.checkpoints == (config().keep_checkpoints + 1) * 4000, "each checkpoint holds it"
    assert memory(MODEL, config(generation_rows=4), 2000.0).kv_cache * 2 == base.kv_cache
    token = 2000 * (1 + WORKING_LAYERS / MODEL.layers)
    assert memory(MODEL, config(micro_batch_tokens=10), 2000.0).activations == round(50 * token), "one row is always whole"
    alone = memory(MODEL, config(micro_batch_tokens=10, shared_prefix=False), 2000.0).activations
    assert alone == round(50 * token)
    assert memory(MODEL, config(keep_checkpoints=5), 2000.0).checkpoints == (6 * 12 + 4) * 1000


def test_no_row_is_longer_than_the_model_allows() -> None:
    assert longest(MODEL, config()) == 50
    assert longest(MODEL, config(max_prompt_tokens=1000)) == 64


def test_checkpointing_takes_each_prompt_with_each_completion() -> None:
    assert shares_prompts(config())
    assert not shares_prompts(config(gradient_checkpointing=True))
    assert not shares_prompts(config(shared_prefix=False))
