"""Prompts run once a group give the padded computation's values and gradients; models that do not allow it are found out."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from exact import float64, relative
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.dry_run.kept import SavedBytes
from verigym.trainer.learner.update import Objective, accumulate
from verigym.trainer.logprobs import shared_prefix as prefix_module
from verigym.trainer.logprobs.forward import ForwardOptions, row_logprobs, usable_head
from verigym.trainer.logprobs.shared_prefix import copy_charge, micro_batch_passes, shareable
from verigym.trainer.losses.token_level import clipped

SIZES: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
MODELS: dict[str, tuple[Any, Any, bool, bool]] = {
    "llama, grouped queries": (LlamaForCausalLM, LlamaConfig(**SIZES), True, True),
    "llama, eager": (LlamaForCausalLM, LlamaConfig(**SIZES, attn_implementation="eager"), True, True),
    "gpt2, learned positions": (
        GPT2LMHeadModel,
        GPT2Config(vocab_size=61, n_embd=16, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2),
        True,
        True,
    ),
    "cohere, scaled logits": (CohereForCausalLM, CohereConfig(**SIZES, logit_scale=0.5), True, True),
    "granite, scaled logits": (GraniteForCausalLM, GraniteConfig(**SIZES, logits_scaling=3.0), True, True),
    "mistral, sliding window": (MistralForCausalLM, MistralConfig(**SIZES, sliding_window=6), True, False),
    "gemma 2, capped logits": (Gemma2ForCausalLM, Gemma2Config(**SIZES, head_dim=4, final_logit_softcapping=3.0), True, False),
    "mamba, recurrent": (
        MambaForCausalLM,
        MambaConfig(vocab_size=61, hidden_size=16, num_hidden_layers=2, state_size=4),
        True,
        False,
    ),
}
"""Class, configuration, whether its head is found, whether its prompts can be shared."""


def build(name: str) -> Any:
    kind, config, _, _ = MODELS[name]
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    model = kind(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    torch.random.set_rng_state(state)
    return model


def rows(key: str, sizes: list[tuple[int, list[int]]]) -> list[TrainingRow]:
    """Groups from (prompt length, completion lengths)."""
    draw = random.Random(key)
    made = []
    for prompt_length, lengths in sizes:
        prompt = tuple(draw.choices(range(61), k=prompt_length))
        made += [TrainingRow(prompt, tuple(draw.choices(range(61), k=n)), draw.gauss(0, 1), True) for n in lengths]
    return made


def gradient(model: Any, batch: list[TrainingRow], **how: Any) -> tuple[torch.Tensor, dict[str, float]]:
    objective = Objective(loss=clipped, aggregation="token_mean", max_new_tokens=32, temperature=0.8)
    model.zero_grad(set_to_none=True)
    metrics = accumulate(model, batch, objective, pad_id=0, **{"token_budget": 4096, **how})
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]), metrics


@pytest.mark.parametrize("name", MODELS)
def test_each_kind_of_model_is_right_and_known_for_what_it_is(name: str) -> None:
    model = build(name)
    assert (usable_head(model) is not None, shareable(model)) == MODELS[name][2:]
    batch = rows(name, [(3, [3, 1, 6, 2]), (9, [5, 5]), (1, [1, 1]), (5, [1])])
    scored = row_logprobs(model, [r.prompt_ids for r in batch], [r.token_ids for r in batch], ForwardOptions(pad_id=0))
    for row, found in zip(batch, scored.logp_BT, strict=True):
        logits = model(torch.tensor([[*row.prompt_ids, *row.token_ids]]), use_cache=False).logits[
            0, len(row.prompt_ids) - 1 : -1
        ]
        wanted = torch.log_softmax(logits, -1)[range(len(row.token_ids)), list(row.token_ids)]
        torch.testing.assert_close(found[: len(wanted)], wanted, rtol=0, atol=2e-6)
    alone, metrics = gradient(model, batch, shared_prefix=False)
    for how in ({}, {"token_budget": 1}, {"token_budget": 40, "chunk": 3}):
        found, found_metrics = gradient(model, batch, **how)
        assert relative(found, alone) < 5e-6
        assert found_metrics["loss"] == pytest.approx(metrics["loss"], abs=1e-6)


@pytest.fixture(scope="module")
def exact_llama() -> Any:
    return float64(build("llama, grouped queries"))


@pytest.mark.parametrize(
    "sizes",
    [
        [(8, [4, 4, 4, 4])],
        [(8, [1, 1])],
        [(1, [1])],
        [(12, [9, 1, 3]), (12, [2, 2, 7, 7, 1])],
        [(2, [3]), (20, [6, 2, 2]), (7, [1, 12]), (7, [5])],
    ],
    ids=str,
)
@pytest.mark.parametrize("token_budget", [1, 30, 64, 4096])
def test_shared_equals_separate_to_the_last_digits(exact_llama: Any, sizes: Any, token_budget: int) -> None:
    batch = rows(str(sizes), sizes)
    alone, metrics = gradient(exact_llama, batch, shared_prefix=False)
    shared, shared_metrics = gradient(exact_llama, batch, token_budget=token_budget)
    assert relative(shared, alone) < 1e-12
    assert shared_metrics == pytest.approx(metrics, rel=1e-12)


def test_bf16_is_near(exact_llama: Any) -> None:
    model = build("llama, grouped queries")
    batch = rows("bf16", [(8, [4, 1, 6]), (5, [3])])
    full, _ = gradient(model, batch)
    shared, _ = gradient(model, batch, dtype="bf16")
    alone, _ = gradient(model, batch, dtype="bf16", shared_prefix=False)
    assert shared.dtype == torch.float32
    assert 0 < relative(shared, full) < 0.05
    assert relative(alone, full) < 0.05


def test_a_prompt_is_run_once_and_tokens_stay_within_the_budget(exact_llama: Any) -> None:
    seen: list[torch.Size] = []

    def note(module: Any, args: Any, inputs: Any) -> None:
        seen.append(inputs["input_ids"].shape)

    assert shareable(exact_llama)
    hook = prefix_module.decoder(exact_llama).register_forward_pre_hook(note, with_kwargs=True)
    batch = rows("once", [(16, [4, 5, 6, 6]), (16, [1, 1, 9, 9])])
    prompts, completions = [row.prompt_ids for row in batch], [row.token_ids for row in batch]
    parts = []
    for numbers, run in micro_batch_passes(
        exact_llama, prompts, completions, range(8), ForwardOptions(pad_id=0, token_budget=64)
    ):
        parts += numbers
        run(None).logp_BT.sum().backward()  # type: ignore[no-untyped-call]
    hook.remove()
    assert sorted(parts) == list(range(8))
    assert seen.count(torch.Size([1, 16])) == 2, "each prompt once: two at a time would be half of the budget"
    others = [shape for shape in seen if shape != torch.Size([1, 16])]
    assert all(16 + shape[0] * (shape[1] + 1 + 4) <= 64 for shape in others), "a quarter of the prompt with each row"


def test_copies_of_a_long_prompt_bound_the_rows() -> None:
    """Short answers to a long prompt: what is kept for the backward pass does not grow with the group."""
    assert [copy_charge(tokens) for tokens in (0, 1, 4, 5)] == [0, 1, 1, 2]
    model = build("llama, grouped queries")
    budget, peaks = 128, []
    assert shareable(model)
    for group_size in (8, 64):
        batch = rows("long", [(48, [2] * group_size)])
        saved, sizes = SavedBytes(model), []
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            prompts, completions = [row.prompt_ids for row in batch], [row.token_ids for row in batch]
            how = ForwardOptions(pad_id=0, token_budget=budget)
            for numbers, run in micro_batch_passes(model, prompts, completions, range(group_size), how):
                sizes.append(len(numbers))
                run(None).logp_BT.sum().backward()  # type: ignore[no-untyped-call]
        assert sum(sizes) == group_size
        assert max(sizes) <= (budget - 48) // (2 + 12)
        peaks.append(saved.peak)
    assert peaks[1] <= peaks[0]
    alone, _ = gradient(model, batch, shared_prefix=False)
    assert relative(gradient(model, batch, token_budget=budget)[0], alone) < 5e-6


def test_a_model_that_fails_the_trial_is_run_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama, grouped queries")

    def broken(self: Any, *args: Any) -> Any:
        raise TypeError("no cache for you")

    monkeypatch.setattr(prefix_module.SharedPrefix, "logprobs", broken)
    assert not shareable(model)
    batch = rows("trial", [(3, [2, 2])])
    assert gradient(model, batch)[1]["rows_with_gradient"] == 2


def test_a_model_whose_positions_are_taken_from_the_cache_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama, grouped queries")
    real = model.model.forward
    monkeypatch.setattr(model.model, "forward", lambda *args, position_ids=None, **kwargs: real(*args, **kwargs))
    assert not shareable(model)


def test_a_head_that_does_more_than_it_says_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama, grouped queries")
    real = model.forward

    def doubled(*args: Any, **kwargs: Any) -> Any:
        out = real(*args, **kwargs)
        out.logits = 2 * out.logits
        return out

    monkeypatch.setattr(model, "forward", doubled)
    assert usable_head(model) is None
    assert not shareable(model)
    scored = row_logprobs(model, [[3, 4, 5]], [[6, 7]], ForwardOptions(pad_id=0, temperature=0.5, entropy=True))
    choices = torch.distributions.Categorical(logits=4 * real(torch.tensor([[3, 4, 5, 6]])).logits[0, 2:])
    torch.testing.assert_close(scored.logp_BT[0], choices.log_prob(torch.tensor([6, 7])), rtol=0, atol=1e-5)
    torch.testing.assert_close(scored.entropy_BT[0], choices.entropy(), rtol=0, atol=1e-5)
