"""Adapters: what they start as, that their gradient is the one of W + (alpha / rank) B A, and that nothing else moves."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from adapted import TEXTS, adapted, frozen_bytes, moved, settings
from exact import float64, relative
from groups import RIGHT, WRONG, group
from torch.func import functional_call

from verigym.envs import extras
from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.config.run import build_config
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.engines.native.generate import generate
from verigym.trainer.learner.kl_reward import kl_penalties
from verigym.trainer.learner.update import Objective, accumulate, policy_logprobs
from verigym.trainer.logprobs.forward import ForwardOptions, checkpointing, row_logprobs, usable_head
from verigym.trainer.logprobs.shared_prefix import shareable
from verigym.trainer.losses.kl import k3
from verigym.trainer.losses.token_level import clipped
from verigym.trainer.models.lora import (
    WithoutAdapter,
    adapter_tensors,
    add_adapter,
    load_adapter,
    merged_weights,
    opened,
    save_adapter,
)

FORWARD: dict[str, Any] = {"token_budget": 24, "pad_id": 0}
ROWS = [TrainingRow(prompt, tokens, (-1.0) ** n * (n + 1), True) for n, (prompt, tokens) in enumerate(TEXTS)]


def logps(model: Any) -> torch.Tensor:
    prompts, completions = zip(*TEXTS, strict=True)
    with torch.no_grad(), opened(model) as live:
        return row_logprobs(live, prompts, completions, ForwardOptions(pad_id=0)).logp_BT


def values(policy: Any, part: str) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.named_parameters() if f".lora_{part}." in name}


def test_first_values_depend_on_the_seed_and_the_layer_alone(tiny_model: Any) -> None:
    state = torch.random.get_rng_state()
    one = values(add_adapter(copy.deepcopy(tiny_model), settings(), seed=0), "A")
    assert torch.equal(torch.random.get_rng_state(), state), "nobody else's randomness is used up"
    torch.rand(7)
    same = values(add_adapter(copy.deepcopy(tiny_model), settings(), seed=0), "A")
    other = values(add_adapter(copy.deepcopy(tiny_model), settings(), seed=1), "A")
    assert len(one) == 14, "four and three linear layers in each of two blocks"
    for name, tensor in one.items():
        bound = tensor.shape[1] ** -0.5
        assert torch.equal(tensor, same[name]) and not torch.equal(tensor, other[name])
        assert 0.8 * bound < tensor.abs().max() <= bound
    alike = [tensor for tensor in one.values() if tensor.shape == (4, 32)]
    assert len({tuple(tensor.flatten().tolist()) for tensor in alike}) == len(alike) == 12


def test_at_first_the_policy_is_the_base_exactly(tiny_model: Any) -> None:
    policy = add_adapter(copy.deepcopy(tiny_model), settings(), seed=0)
    assert torch.equal(logps(policy), logps(tiny_model))
    assert not any(tensor.any() for tensor in values(policy, "B").values())


def test_the_reference_is_the_policy_with_its_adapters_off(tiny_model: Any) -> None:
    policy = adapted(copy.deepcopy(tiny_model))
    reference = WithoutAdapter(policy)
    before = values(policy, "B")
    assert (logps(policy) - logps(tiny_model)).abs().max() > 0.01
    assert torch.equal(logps(reference), logps(tiny_model))
    options: dict[str, Any] = {"temperature": 1.0, **FORWARD}
    assert policy_logprobs(reference, ROWS, **options) == policy_logprobs(tiny_model, ROWS, **options)
    assert (logps(policy) - logps(tiny_model)).abs().max() > 0.01, "on again"
    after = values(policy, "B")
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(parameter.requires_grad == (".lora_" in name) for name, parameter in policy.named_parameters())


def objective(reference: Any, kl_coef: float) -> Objective:
    return Objective(clipped, "token_mean", 8, 0.9, kl_coef=kl_coef, kl=k3, reference=reference)


def test_the_kl_is_zero_before_the_first_update(tiny_model: Any) -> None:
    policy = add_adapter(copy.deepcopy(tiny_model), settings(), seed=0)
    assert accumulate(policy, ROWS, objective(WithoutAdapter(policy), 0.5), **FORWARD)["kl"] == 0
    moved(policy)
    assert accumulate(policy, ROWS, objective(WithoutAdapter(policy), 0.5), **FORWARD)["kl"] > 1e-4


def test_the_kl_in_the_reward_is_to_the_policy_without_adapters(tiny_model: Any) -> None:
    policy = adapted(copy.deepcopy(tiny_model))
    keys = [[(p, g) for g in range(2)] for p in range(2)]
    limits: dict[str, Any] = {"max_new_tokens": 6, "eos_ids": frozenset({1}), "pad_id": 0}
    done = generate(policy, [(5, 6, 7), (8, 9)], keys, temperature=1.0, **limits)
    groups = [
        replace(group("s", [RIGHT, WRONG]), prompt_ids=ids, generated=tuple(done[p]))
        for p, ids in enumerate([(5, 6, 7), (8, 9)])
    ]
    found, metrics = kl_penalties(WithoutAdapter(policy), groups, k3, 0.5, temperature=1.0, **FORWARD)
    expected, _ = kl_penalties(tiny_model, groups, k3, 0.5, temperature=1.0, **FORWARD)
    assert metrics["kl"] > 0
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shared", [True, False], ids=["shared prompts", "separate"])
@pytest.mark.parametrize("targets", ["all-linear", ("v_proj",), ("q_proj", "down_proj")], ids=str)
def test_the_gradient_is_that_of_the_sum_written_out(targets: Any, shared: bool, tiny_model: Any) -> None:
    """With values alone adapted, the first block's keys depend on nothing that is trained."""
    plain = float64(tiny_model)
    policy = adapted(float64(tiny_model), lora_targets=targets)
    assert shareable(policy) and usable_head(policy) is not None
    accumulate(policy, ROWS, objective(WithoutAdapter(policy), 0.3), **FORWARD, shared_prefix=shared)

    weights = {name: parameter.detach() for name, parameter in plain.named_parameters()}
    factors: dict[str, dict[str, torch.Tensor]] = {"A": {}, "B": {}}
    for part, found in factors.items():
        for name, value in values(policy, part).items():
            layer = name.removeprefix("base_model.model.").partition(".lora_")[0]
            found[f"{layer}.weight"] = value.requires_grad_()
    for name, factor_A in factors["A"].items():
        weights[name] = weights[name] + 8.0 / 4 * factors["B"][name] @ factor_A
    total, tokens = torch.zeros((), dtype=torch.float64), sum(len(row.token_ids) for row in ROWS)
    for row in ROWS:
        ids = torch.tensor([[*row.prompt_ids, *row.token_ids]])
        at = range(len(row.prompt_ids) - 1, ids.shape[1] - 1)
        logp_LV = (functional_call(plain, weights, kwargs={"input_ids": ids}).logits[0] / 0.9).log_softmax(-1)
        ref_LV = (plain(input_ids=ids).logits[0].detach() / 0.9).log_softmax(-1)
        for t, token in zip(at, row.token_ids, strict=True):
            gap = ref_LV[t, token] - logp_LV[t, token]
            total = total - row.advantage * (logp_LV[t, token] - logp_LV[t, token].detach()).exp() / tokens
            total = total + 0.3 * (gap.exp() - gap - 1) / tokens
    total.backward()  # type: ignore[no-untyped-call]
    compared = 0
    for name, parameter in policy.named_parameters():
        layer, is_adapter, rest = name.removeprefix("base_model.model.").partition(".lora_")
        if not is_adapter:
            assert parameter.grad is None, name
            continue
        expected = factors[rest[0]][f"{layer}.weight"].grad
        assert expected is not None and expected.norm() > 1e-6
        assert relative(parameter.grad, expected) < 1e-10, name
        compared += 1
    assert compared == 2 * len(factors["A"]) > 0


def test_gradient_checkpointing_changes_nothing(tiny_model: Any) -> None:
    policy = adapted(float64(tiny_model))
    gradients = []
    for on in (False, True):
        policy.zero_grad(set_to_none=True)
        with checkpointing(policy, on):
            accumulate(policy, ROWS, objective(None, 0.0), **FORWARD, shared_prefix=False)
        gradients.append({name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None})
    assert len(gradients[0]) == len(gradients[1]) == 28
    assert all(relative(gradients[1][name], gradient) < 1e-12 for name, gradient in gradients[0].items())


def test_merged_it_says_the_same(tiny_model: Any) -> None:
    policy = adapted(copy.deepcopy(tiny_model))
    before = frozen_bytes(policy)
    merged = copy.deepcopy(tiny_model)
    weights = dict(merged_weights(policy))
    assert set(weights) == {name for name, _ in merged.named_parameters()}
    merged.load_state_dict(weights, strict=False)
    assert (logps(policy) - logps(tiny_model)).abs().max() > 0.01
    torch.testing.assert_close(logps(merged), logps(policy), rtol=0, atol=1e-5)
    prompts, keys = [(5, 6, 7), (8, 9)], [[(0,)], [(1,)]]
    limits: dict[str, Any] = {"max_new_tokens": 24, "eos_ids": frozenset({1}), "pad_id": 0}
    beside, plain, base = (generate(m, prompts, keys, temperature=0, **limits) for m in (policy, merged, tiny_model))
    for (one,), (other,) in zip(beside, plain, strict=True):
        assert one.token_ids == other.token_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert [one.token_ids for (one,) in beside] != [one.token_ids for (one,) in base]
    assert frozen_bytes(policy) == before


def test_adapters_come_back_bit_by_bit(tiny_model: Any, tmp_path: Any) -> None:
    policy = adapted(copy.deepcopy(tiny_model))
    file = tmp_path / "adapter.safetensors"
    save_adapter(adapter_tensors(policy), file)
    other = add_adapter(copy.deepcopy(tiny_model), settings(), seed=9)
    load_adapter(adapter_tensors(other), file)
    assert torch.equal(logps(other), logps(policy))
    assert file.stat().st_size < sum(p.nbytes for p in tiny_model.parameters())
    with pytest.raises(UsageError, match="other layers or another rank"):
        load_adapter(adapter_tensors(add_adapter(copy.deepcopy(tiny_model), settings(lora_rank=2), seed=3)), file)


@pytest.mark.parametrize("targets", [("x_proj",), ("lm_head",), ("embed_tokens",)], ids=str)
def test_layers_that_cannot_have_one_are_refused(targets: tuple[str, ...], tiny_model: Any) -> None:
    with pytest.raises(UsageError, match="lora_targets: "):
        add_adapter(copy.deepcopy(tiny_model), settings(lora_targets=targets), seed=0)


def test_an_absent_package_is_named_with_its_extra(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(UsageError, match=r"lora_rank needs the package peft .*pip install 'verigym\[lora\]'"):
        add_adapter(copy.deepcopy(tiny_model), settings(), seed=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lora_base": "4bit"}, "set lora_rank above 0"),
        ({"lora_targets": ["q_proj"]}, "set lora_rank above 0"),
        ({"lora_rank": 4, "lora_targets": []}, "lora_targets is empty"),
        ({"lora_rank": -1}, "greater than or equal to 0"),
    ],
    ids=str,
)
def test_settings_that_mean_nothing_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdapterFields(**fields)


def test_the_settings_in_the_documentation_are_a_run() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/training.md").read_text()
    snippet = next(text for text in page.split("```yaml") if text.lstrip().startswith("lora_rank")).partition("```")[0]
    run = {"model": "m", "output": "o", "sources": [{"environment": "arithmetic"}]}
    config = build_config({**run, **yaml.safe_load(snippet)}, "docs/training.md")
    assert (config.lora_rank, config.lora_base, config.optimizer) == (16, "4bit", "adamw_8bit")
