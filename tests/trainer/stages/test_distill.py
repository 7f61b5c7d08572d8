"""Distillation stages: the student comes nearer to its teacher, stopped or not, and other tokenizers are refused."""

from __future__ import annotations

import copy
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from verigym.envs import UsageError
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.logprobs.forward import ForwardOptions
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.stages import step_run as run_module
from verigym.trainer.stages.config import LogitConfig, OnPolicyConfig, SftConfig
from verigym.trainer.stages.distill import distill_logits, distill_on_policy, kl_gradient, with_advantages
from verigym.trainer.stages.examples import Pair
from verigym.trainer.stages.sft import sft

PAIRS = [Pair((5, 6, 7), (20, 21, 1)), Pair((8,), (22, 23, 24, 25, 1)), Pair((9, 10), (1,))]
SOURCES = [{"environment": "arithmetic", "options": {"digits": 1}}]
Fields = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, fit_fields: Fields) -> Path:
    """A model that has learnt to write one-digit sums, wider than the student."""
    folder = tmp_path_factory.mktemp("teacher")
    scratch_qwen3(tiny_tokenizer, hidden_size=48, layers=1, heads=2, intermediate_size=64, seed=9).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    fields = fit_fields(folder / "out", demonstrations=SOURCES, demonstration_count=64, steps=60, batch_size=16, eval_every=0)
    return sft(SftConfig(**{**fields, "model": str(folder)}))


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory, fit_fields: Fields) -> Path:
    """The small model after a beginning, so that what it writes is sometimes worth something."""
    folder = tmp_path_factory.mktemp("student")
    sizes = {"demonstration_count": 64, "steps": 30, "batch_size": 16, "eval_every": 0}
    return sft(SftConfig(**fit_fields(folder, demonstrations=SOURCES, **sizes)))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("capacity", [None, 1])
def test_the_gradient_is_the_naive_one(direction: Any, capacity: int | None, tiny_model: Any, tiny_tokenizer: Any) -> None:
    other = scratch_qwen3(tiny_tokenizer, hidden_size=48, layers=1, heads=2, intermediate_size=64, seed=9).eval()
    naive, packed = copy.deepcopy(tiny_model), copy.deepcopy(tiny_model)
    total, expected = sum(len(pair.token_ids) for pair in PAIRS), torch.zeros(())
    for pair in PAIRS:
        ids = torch.tensor([[*pair.prompt_ids, *pair.token_ids]])
        places = slice(len(pair.prompt_ids) - 1, -1)
        student = naive(input_ids=ids).logits[0, places].log_softmax(-1)
        taught = other(input_ids=ids).logits[0, places].detach().log_softmax(-1)
        p, q = (taught, student) if direction == "forward" else (student, taught)
        expected = expected + (p.exp() * (p - q)).sum() / total
    expected.backward()
    loss = kl_gradient(packed, other, PAIRS, ForwardOptions(pad_id=0, chunk=2), capacity, direction=direction)
    assert loss == pytest.approx(float(expected.detach()), rel=1e-4)
    for ours, theirs in zip(packed.parameters(), naive.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_logit_distillation_comes_nearer(tmp_path: Path, fit_fields: Fields, teacher: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"prompt": f"{n}+1=?", "completion": f"{n + 1}!"}) + "\n" for n in range(24)))
    fields = fit_fields(tmp_path / "out", data=[str(data)], teacher=str(teacher), steps=20, batch_size=8, held_out_share=0.2)
    distill_logits(LogitConfig(**fields, eval_every=20))
    looks = [row for row in read_rows(tmp_path / "out/metrics.jsonl") if row["kind"] == "eval"]
    assert looks[-1]["kl"] < 0.6 * looks[0]["kl"]


@pytest.mark.slow
@pytest.mark.parametrize(("divergence", "share"), [("sampled", 0.9), ("full", 0.7)])
def test_on_policy_distillation_comes_nearer(
    tmp_path: Path, fit_fields: Fields, teacher: Path, student: Path, divergence: str, share: float
) -> None:
    fields = on_policy(fit_fields, tmp_path, teacher, steps=25, divergence=divergence, learning_rate=5e-3)
    distill_on_policy(OnPolicyConfig(**{**fields, "model": str(student), "samples": 8, "max_new_tokens": 10}))
    rows = read_rows(tmp_path / "metrics.jsonl")
    losses = [row["loss"] for row in rows if row["kind"] == "train"]
    assert sum(losses[-5:]) < share * sum(losses[:5]), "the reverse KL falls"
    assert {"accuracy", "arithmetic/accuracy"} <= set(next(row for row in rows if row["kind"] == "eval"))
    if divergence == "sampled":
        assert max(row["logprob_mismatch"] for row in rows if row["kind"] == "train") < 1e-3


def on_policy(fit_fields: Fields, folder: Path, teacher: Path, **more: Any) -> dict[str, Any]:
    sizes = {"prompts_per_step": 4, "samples": 2, "max_new_tokens": 8, "eval_prompts": 2, "workers": 0}
    return fit_fields(folder, teacher=str(teacher), sources=SOURCES, **sizes, **more)


@pytest.mark.slow
def test_stopped_it_ends_with_the_same_bytes(
    tmp_path: Path, fit_fields: Fields, teacher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"steps": 4, "eval_every": 2}
    whole = distill_on_policy(OnPolicyConfig(**on_policy(fit_fields, tmp_path / "whole", teacher, **more)))
    real = run_module.StepRun._step

    def step(self: Any, number: int, *rest: Any) -> dict[str, float]:
        if number == 1 and not self.resumed:
            signal.raise_signal(signal.SIGINT)
        return real(self, number, *rest)

    monkeypatch.setattr(run_module.StepRun, "_step", step)
    config = OnPolicyConfig(**on_policy(fit_fields, tmp_path / "halved", teacher, **more))
    with pytest.raises(Interrupted):
        distill_on_policy(config)
    halved = distill_on_policy(config)
    assert (halved / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_token_that_the_teacher_likes_better_has_an_advantage() -> None:
    (row,) = with_advantages([TrainingRow((1,), (5, 6), 0.0, True, sampler_logprobs=(-1.0, -2.0))], [(-0.5, -3.0)])
    assert row.token_advantages == (0.5, -1.0)
    assert row.advantages == (0.5, -1.0)


def test_another_tokenizer_is_refused(tmp_path: Path, fit_fields: Fields) -> None:
    tokenizer = scratch_tokenizer(["quite other words"], 300)
    scratch_qwen3(tokenizer, hidden_size=16, layers=1, heads=2, intermediate_size=16).save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(UsageError, match="another tokenizer than the student"):
        distill_on_policy(OnPolicyConfig(**on_policy(fit_fields, tmp_path / "out", tmp_path / "other", steps=1)))


def test_a_source_with_episodes_is_refused(tmp_path: Path, fit_fields: Fields, teacher: Path) -> None:
    sources = [{**SOURCES[0], "tools": {"calculator": {}}}]
    fields = {**on_policy(fit_fields, tmp_path, teacher), "sources": sources}
    with pytest.raises(UsageError, match="has episodes of several turns, which this command does not play"):
        distill_on_policy(OnPolicyConfig(**fields))
