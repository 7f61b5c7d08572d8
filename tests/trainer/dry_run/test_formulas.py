"""A run's price as arithmetic: bytes and seconds by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.formulas import (
    ModelShape,
    Speed,
    Tokens,
    evaluations,
    longest,
    mean_length,
    memory,
    shares_prompts,
    speed_of,
)

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


def test_adapters_need_gradients_and_moments_of_their_own_alone() -> None:
    needs = memory(ADAPTED, config(lora_rank=2, kl_coef=0.1, keep_checkpoints=2), 7.5, 16)
    assert (needs.weights, needs.gradients, needs.optimizer) == (400_000 + 4 * 8292, 4 * 8292, 8 * 8292)
    assert needs.reference == 0, "the policy without its adapters"
    assert needs.checkpoints == 3 * 12 * 8292 + 400_000 + 4 * 8292, "the final model is a whole one"
    replaced = memory(ADAPTED, config(lora_rank=2, kl_coef=0.1, keep_checkpoints=2, reference_every=5), 7.5, 16)
    assert replaced.reference == 4 * 8292, "a second set of adapters"
    assert replaced.checkpoints == 3 * 16 * 8292 + 400_000 + 4 * 8292
    whole = memory(replace(ADAPTED, trained=(100_000,)), config(kl_coef=0.1), 7.5, 16)
    assert (whole.weights, whole.gradients, whole.optimizer, whole.reference) == (400_000, 400_000, 800_000, 400_000)


@pytest.mark.parametrize(
    ("base", "weights"), [("fp32", 600_000), ("bf16", 200_000), ("4bit", 2 * 34_464 + 32_768 + 1024 + 4 * 4)]
)
def test_the_base_may_have_fewer_bits(base: str, weights: int) -> None:
    needs = memory(ADAPTED, config(lora_rank=2, lora_base=base, dtype="bf16"), 7.5, 16)
    assert needs.weights == weights + 6 * 8292


def test_moments_in_8_bits() -> None:
    """Two moments of a byte a number and a scale of four bytes for each 256; the small tensor keeps two of four bytes."""
    needs = memory(ADAPTED, config(lora_rank=2, optimizer="adamw_8bit"), 7.5, 16)
    assert needs.optimizer == 2 * (8192 + 32 * 4) + 8 * 100


def test_the_critic_has_the_optimizer_of_the_run() -> None:
    """Its moments are those of the whole model, adapters or not."""
    plain = memory(ADAPTED, config(advantage="gae", lora_rank=2, keep_checkpoints=1), 7.5, 16)
    small = memory(ADAPTED, config(advantage="gae", lora_rank=2, keep_checkpoints=1, optimizer="adamw_8bit"), 7.5, 16)
    moments = 2 * (99_840 + 390 * 4) + 8 * 160
    assert (plain.critic, small.critic) == (16 * 100_000, 8 * 100_000 + moments)
    adapters = plain.optimizer - small.optimizer
    assert plain.checkpoints - small.checkpoints == 2 * (8 * 100_000 - moments + adapters), "the one being written too"


def test_memory_in_fp32_by_hand() -> None:
    needs = memory(MODEL, config(), activation_bytes=7.5, chunk_tokens=16)
    assert (needs.weights, needs.gradients, needs.optimizer, needs.reference) == (4000, 4000, 8000, 0)
    assert needs.kv_cache == 8 * 50 * (2 * 2 * 4 * 4) * 5, (
        "8 rows of 50 tokens, keys and values of 2 heads of 4, 3 layers and two for copies"
    )
    assert needs.sampling == 8 * 10 * 28
    assert needs.activations == 1125, "100 tokens, and half as much again for the way back"
    assert needs.logits == 16 * 10 * 12
    assert needs.standing == 16000
    assert needs.peak == 16000 + needs.kv_cache + needs.sampling, "generation needs more than the update"
    assert needs.checkpoints == (3 * 12 + 4) * 1000


def test_what_changes_memory() -> None:
    base = memory(MODEL, config(), 2000.0, 16)
    assert base.peak == base.standing + base.activations + base.logits, "here the update needs more"
    half = memory(MODEL, config(dtype="bf16"), 2000.0, 16)
    assert (half.weights, half.kv_cache, half.optimizer) == (6000, base.kv_cache, 8000)
    kept = memory(MODEL, config(kl_coef=0.1), 2000.0, 16)
    assert kept.reference == 4000
    replaced = memory(MODEL, config(kl_coef=0.1, reference_every=5), 2000.0, 16)
    assert replaced.reference == 4000, "replaced in place"
    assert replaced.checkpoints - kept.checkpoints == (config().keep_checkpoints + 1) * 4000, "each checkpoint holds it"
    assert memory(MODEL, config(generation_rows=4), 2000.0, 16).kv_cache * 2 == base.kv_cache
    whole = memory(MODEL, config(micro_batch_tokens=10), 2000.0, 16).activations
    assert whole == 1.5 * 2000 * (50 + 8), "one row is always whole, with a quarter of 30 for its copy of the prompt"
    alone = memory(MODEL, config(micro_batch_tokens=10, shared_prefix=False), 2000.0, 16).activations
    assert alone == 1.5 * 2000 * 50
    assert memory(MODEL, config(keep_checkpoints=5), 2000.0, 16).checkpoints == (6 * 12 + 4) * 1000


def test_no_row_is_longer_than_the_model_allows() -> None:
    assert longest(MODEL, config()) == 50
    assert longest(MODEL, config(max_prompt_tokens=1000)) == 64


def test_the_mean_of_lengths_that_all_ended_is_the_expectation() -> None:
    assert mean_length([3, 5, 4], [False] * 3, 20) == 4


def test_lengths_that_were_cut_off_are_guessed() -> None:
    assert mean_length([8, 8], [True, True], 20) == 20
    # 40 tokens, 4 ends: a mean of 10 tokens, of which exp(-1.2) grow past 12.
    observed, cut = [10, 10, 10, 5, 5], [False, False, False, False, True]
    assert mean_length(observed, cut, 10_000) == pytest.approx(10)
    assert mean_length(observed, cut, 12) == pytest.approx(10 * (1 - math.exp(-1.2)))


@pytest.mark.parametrize("share_prompts", [True, False])
def test_a_measured_step_gives_its_own_times_again(share_prompts: bool) -> None:
    settings = config(shared_prefix=share_prompts)
    tokens = Tokens(36, 96)
    speed = speed_of(tokens, 3.0, 2.0, settings)
    assert speed.generate(tokens) == pytest.approx(3.0)
    assert speed.trained_token_s * tokens.trained(settings) == pytest.approx(2.0)
    assert speed.prompt_token_s == pytest.approx(speed.trained_token_s / 3)
    assert speed_of(tokens, 0.01, 2.0, settings).completion_token_s == 0, "prefill is never more than all of generation"


def test_checkpointing_takes_each_prompt_with_each_completion() -> None:
    assert shares_prompts(config())
    assert not shares_prompts(config(gradient_checkpointing=True))
    assert not shares_prompts(config(shared_prefix=False))


def test_times_by_hand() -> None:
    speed = Speed(prompt_token_s=0.1, completion_token_s=0.2, trained_token_s=0.3)
    assert speed.generate(Tokens(30, 20)) == pytest.approx(30 * 0.1 + 20 * 0.2)
    assert speed.generate(Tokens(30, 20, rounds=3)) == pytest.approx(3 * 7), "drawn again until there is a signal"
    assert Tokens(30, 20).trained(config()) == 50
    assert Tokens(30, 20).trained(config(shared_prefix=False)) == 4 * 30 + 20, "a prompt runs with each of its 4 completions"


@pytest.mark.parametrize(("steps", "every", "expected"), [(100, 50, 3), (101, 50, 4), (10, 50, 2), (100, 0, 0)])
def test_evaluations_are_counted(steps: int, every: int, expected: int) -> None:
    assert evaluations(config(steps=steps, eval_every=every)) == expected
