"""Replacing the reference of the KL: by which policy, what the KL then is, and that a resumed run knows which it was."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment
from safetensors.torch import load_file

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.learner.learner import Learner
from verigym.trainer.logprobs.forward import ForwardOptions, row_logprobs
from verigym.trainer.loop import train

STEPS = 6
KINDS: dict[str, dict[str, Any]] = {
    "whole model": {},
    "adapters": {"lora_rank": 4, "learning_rate": 0.02},
    "KL in the reward": {"kl_place": "reward", "kl_estimator": "k1", "shared_prefix": False},
}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def settings(folder: Path, model: Path, **fields: Any) -> Any:
    base: dict[str, Any] = {
        "model": str(model),
        "output": str(folder),
        "sources": [{"environment": "letters"}],
        "seed": 4,
        "steps": STEPS,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 8,
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "kl_coef": 0.05,
        "reference_every": 2,
        "checkpoint_every": 1,
        "keep_checkpoints": STEPS,
        "eval_every": 0,
        "loggers": [],
        "threads": 1,
        "workers": 0,
        "device": "cpu",
    }
    return build_config(base | fields, "test")


def run(folder: Path, model: Path, **fields: Any) -> list[dict[str, Any]]:
    train(settings(folder, model, **fields), {"letters": LettersEnvironment()})
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.endswith("_s")} for row in rows if row["kind"] == "train"]


def kept(folder: Path, step: int) -> dict[str, torch.Tensor]:
    """The reference's tensors in a checkpoint, by the names that the policy's have there."""
    checkpoint = folder / f"checkpoints/step-{step:08d}"
    if (checkpoint / "reference.safetensors").exists():
        return load_file(checkpoint / "reference.safetensors")
    tensors = load_file(checkpoint / "reference/rank-00000-of-00001.safetensors")
    return {name.removeprefix("weight/"): tensor for name, tensor in tensors.items()}


def policy(folder: Path, step: int) -> dict[str, torch.Tensor]:
    checkpoint = folder / f"checkpoints/step-{step:08d}"
    adapter = checkpoint / "adapter.safetensors"
    return load_file(adapter if adapter.exists() else checkpoint / "model/model.safetensors")


Finished = Callable[[str], tuple[Path, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def finished(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Folder and rows of a run of a kind that was left alone; each is made once."""

    @functools.cache
    def made(kind: str) -> tuple[Path, list[dict[str, Any]]]:
        folder = tmp_path_factory.mktemp("finished")
        return folder, run(folder, model_folder, **KINDS[kind])

    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_so_many_steps_the_policy_becomes_the_reference(kind: str, finished: Finished) -> None:
    folder, rows = finished(kind)
    assert [row["reference_step"] for row in rows] == [0, 0, 2, 2, 4, 4]
    for done, origin in ((3, 2), (4, 2), (5, 4), (6, 4)):
        mine, theirs = kept(folder, done), policy(folder, origin)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())
        assert any(not torch.equal(tensor, policy(folder, origin + 1)[name]) for name, tensor in mine.items())
    # Where policy and reference are one, a KL in the loss is 0; one in the reward compares with the sampler's rounding.
    for row in rows:
        near = abs(row["kl"]) < 1e-6
        assert near == (row["step"] in (1, 3, 5)), row


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_stopped_anywhere_it_goes_on_to_the_same_bytes(
    kind: str, finished: Finished, model_folder: Path, tmp_path: Path
) -> None:
    folder, whole = finished(kind)
    for steps in (1, 2, 3, STEPS):
        parts = run(tmp_path / "parts", model_folder, steps=steps, **KINDS[kind])
    assert parts == whole
    for checkpoint in (folder / "checkpoints").iterdir():
        for path in checkpoint.rglob("*.safetensors"):
            other = tmp_path / "parts" / path.relative_to(folder)
            assert path.read_bytes() == other.read_bytes(), path.name
    final = "final/model.safetensors"
    assert (tmp_path / "parts" / final).read_bytes() == (folder / final).read_bytes()


def test_earlier_adapters_say_what_the_policy_said(finished: Finished, model_folder: Path) -> None:
    from verigym.trainer.models.lora import opened

    folder, _ = finished("adapters")

    def said(model: Any) -> torch.Tensor:
        with torch.no_grad(), opened(model) as live:
            return row_logprobs(live, [(5, 6, 7)] * 2, [(20, 21, 22), (9, 30)], ForwardOptions(pad_id=0)).logp_BT

    config = settings(folder, model_folder, lora_rank=4, learning_rate=0.02)
    then = Learner(config, folder / "checkpoints/step-00000002")
    now = Learner(config, folder / "checkpoints/step-00000004")
    before = {name: parameter.detach().clone() for name, parameter in now.model.named_parameters()}
    assert torch.equal(said(now.objective.reference), said(then.model))
    assert not torch.equal(said(now.model), said(then.model))
    assert all(torch.equal(parameter, before[name]) for name, parameter in now.model.named_parameters()), "the policy stays"


def test_without_it_the_reference_stays(model_folder: Path, tmp_path: Path) -> None:
    rows = run(tmp_path, model_folder, reference_every=0, steps=4)
    assert [row["kl"] > 1e-6 for row in rows] == [False, True, True, True]
    assert "reference_step" not in rows[0]
    assert not list(tmp_path.rglob("reference*"))


def test_another_number_is_another_run(model_folder: Path, tmp_path: Path) -> None:
    run(tmp_path, model_folder, steps=2)
    with pytest.raises(UsageError, match="was made with other settings"):
        run(tmp_path, model_folder, reference_every=3)


def test_what_has_no_effect_is_refused(model_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        UsageError, match="reference_every is about the reference of a KL; set kl_coef above 0, or leave it out"
    ):
        settings(tmp_path, model_folder, kl_coef=0.0)
    with caplog.at_level(logging.INFO, "verigym.trainer"):
        run(tmp_path, model_folder, steps=2)
        assert "reference_every is 2: a run of 2 steps ends before that" in caplog.text
        run(tmp_path, model_folder, steps=3)
    assert "step 3: the policy after step 2 is the KL's reference from here on" in caplog.text
