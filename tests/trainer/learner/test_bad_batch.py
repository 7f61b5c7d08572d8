"""A batch that gave no finite gradient can be looked at afterwards: every number of it, and its texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.learner.bad_batch import KEPT, save_bad_batch

ROWS = [
    TrainingRow((1, 2), (3, 4, 5), 1.5, True, sampler_logprobs=(-0.5, -float("inf"), -0.25)),
    TrainingRow((6,), (7,), float("nan"), False, sampler_logprobs=(-1.0,)),
]


def spell(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, ids))


def test_every_number_comes_back(tmp_path: Path) -> None:
    path = save_bad_batch(tmp_path / "bad", 12, ROWS, {"loss": float("nan"), "grad_norm": float("inf"), "rows": 2.0}, spell)
    assert path == tmp_path / "bad/step-00000012.json"
    page = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert page["step"] == 12
    assert page["metrics"] == {"loss": "nan", "grad_norm": "inf", "rows": 2.0}
    first, second = page["rows"]
    assert (first["prompt"], first["completion"], first["advantage"]) == ("1 2", "3 4 5", 1.5)
    assert (first["lowest_logprob"], first["logprobs_not_finite"]) == ("-inf", 1)
    assert (second["advantage"], second["trained"], second["logprobs_not_finite"]) == ("nan", False, 0)
    tensors = load_file(path.with_suffix(".safetensors"))
    assert tensors["prompt_ids"].tolist() == [1, 2, 6]
    assert tensors["prompt_lengths"].tolist() == [2, 1]
    assert tensors["token_ids"].tolist() == [3, 4, 5, 7]
    assert tensors["completion_lengths"].tolist() == [3, 1]
    assert tensors["trained"].tolist() == [True, False]
    assert tensors["advantages"].isnan().tolist() == [False, False, False, True]
    assert tensors["sampler_logprobs"].tolist() == [-0.5, -float("inf"), -0.25, -1.0]
    assert "old_logprobs" not in tensors


def test_advantages_by_token_are_kept_by_token(tmp_path: Path) -> None:
    rows = [TrainingRow((1,), (2, 3), 0.0, True, old_logprobs=(-1.0, -2.0), token_advantages=(0.5, -0.5))]
    save_bad_batch(tmp_path, 1, rows, {}, spell)
    tensors = load_file(tmp_path / "step-00000001.safetensors")
    assert torch.equal(tensors["advantages"], torch.tensor([0.5, -0.5], dtype=torch.float64))
    assert tensors["old_logprobs"].tolist() == [-1.0, -2.0]


def test_the_first_ones_are_kept_and_a_step_run_again_replaces_its_own(tmp_path: Path) -> None:
    for step in range(1, KEPT + 3):
        assert (save_bad_batch(tmp_path, step, ROWS, {}, spell) is None) == (step > KEPT)
    assert save_bad_batch(tmp_path, 1, ROWS, {"loss": 7.0}, spell) is not None
    assert json.loads((tmp_path / "step-00000001.json").read_text())["metrics"] == {"loss": 7.0}
    assert len(list(tmp_path.iterdir())) == 2 * KEPT
