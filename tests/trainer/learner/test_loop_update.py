"""Runs that differ in one setting of the update: which reach the mathematics, and which change nothing but rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import LETTERS, run, settings, weights

from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.credit.rows import training_rows
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.learner import learner
from verigym.trainer.learner.learner import Learner
from verigym.trainer.loop import Run
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.tasks.mixture import build_source


@pytest.fixture(scope="module")
def updated(letters_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., torch.Tensor]:
    """The weights after one update of two parts on the same completions, with a setting changed."""
    folder = tmp_path_factory.mktemp("updated")

    def config(**more: Any) -> TrainConfig:
        return build_config(settings(letters_model, folder, **{"steps": 1, "updates_per_step": 2, **more}), "test")

    sources = [build_source(source, 0, 0, LETTERS) for source in config().sources]
    with open_graders(sources, config()) as graders:
        groups = Run(config(), sources, graders).rollouts(0).groups

    def update(**more: Any) -> torch.Tensor:
        made = Learner(config(**more))
        made.update(0, groups)
        return torch.cat([parameter.detach().flatten() for parameter in made.model.parameters()])

    return update


@pytest.fixture(scope="module")
def plain(updated: Callable[..., torch.Tensor]) -> torch.Tensor:
    return updated()


@pytest.mark.parametrize(
    "setting",
    [
        {"advantage": "rloo"},
        {"clip_low": 0.01},
        {"updates_per_step": 1},
        {"aggregation": "sequence_mean"},
        {"temperature": 0.7},
        {"weight_decay": 0.5},
        {"loss": "sapo"},
        {"loss_options": {"max_log_ratio": 1e-3}},
        {"epochs_per_step": 2},
        {"kl_coef": 0.1},
        {"entropy_coef": 0.1},
        {"correction": "opsm", "correction_options": {"delta": 0.0}},
    ],
    ids=str,
)
def test_every_setting_reaches_the_mathematics(
    setting: dict[str, Any], plain: torch.Tensor, updated: Callable[..., torch.Tensor]
) -> None:
    assert not torch.equal(updated(**setting), plain)


def test_without_a_change_the_weights_are_the_same(plain: torch.Tensor, updated: Callable[..., torch.Tensor]) -> None:
    assert torch.equal(updated(), plain)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"correction": "opsm", "correction_options": {"delta": 0.1}}, True),
        ({"correction": "token_truncated"}, False),
    ],
    ids=str,
)
def test_the_ratio_is_to_the_sampler_unless_a_correction_weighs_by_it(
    fields: dict[str, Any], expected: bool, letters_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def observed(*args: Any, ratio_to_sampler: bool, **kwargs: Any) -> list[list[TrainingRow]]:
        asked.append(ratio_to_sampler)
        return training_rows(*args, ratio_to_sampler=ratio_to_sampler, **kwargs)

    monkeypatch.setattr(learner, "training_rows", observed)
    run(letters_model, tmp_path, steps=1, **fields)
    assert asked == [expected]


def test_with_one_update_a_step_nothing_is_clipped(letters_model: Path, tmp_path: Path) -> None:
    for loss in ("clipped", "reinforce"):
        bounds = {"clip_low": 0.0, "clip_high": 0.0} if loss == "clipped" else {}
        found = run(letters_model, tmp_path / loss, steps=2, loss=loss, **bounds)
        assert all(row["clip_fraction"] == 0 for row in found)
    assert weights(tmp_path / "clipped/final") == weights(tmp_path / "reinforce/final")


def test_kl_in_the_reward_moves_what_equal_rewards_would_not(letters_model: Path, tmp_path: Path) -> None:
    source = [{"environment": "arithmetic"}]  # an untrained model is always wrong
    found = run(letters_model, tmp_path, sources=source, kl_coef=0.1, kl_place="reward", kl_estimator="k1", temperature=0.5)
    assert all(row["groups_without_signal"] == 1 for row in found)
    assert found[0]["kl"] == pytest.approx(0, abs=1e-5), "the reference is asked at the sampler's temperature"
    assert found[2]["kl"] != pytest.approx(0, abs=1e-3)
    assert weights(tmp_path / "final") != weights(letters_model)


@pytest.mark.parametrize("setting", [{"gradient_checkpointing": True}, {"shared_prefix": False}, {"logprob_chunk": 3}], ids=str)
def test_how_an_update_is_computed_changes_nothing_but_rounding(
    setting: dict[str, Any], letters_model: Path, tmp_path: Path
) -> None:
    plain = run(letters_model, tmp_path / "plain", steps=1, kl_coef=0.1)
    other = run(letters_model, tmp_path / "other", steps=1, kl_coef=0.1, **setting)
    for name in ("loss", "grad_norm", "kl"):
        assert other[0][name] == pytest.approx(plain[0][name], rel=1e-4, abs=1e-6)


def test_counts_are_those_of_the_step_however_many_updates_it_has(letters_model: Path, tmp_path: Path) -> None:
    one, four = (run(letters_model, tmp_path / str(n), steps=1, updates_per_step=n, truncated="mask")[0] for n in (1, 4))
    again = run(letters_model, tmp_path / "again", steps=1, updates_per_step=2, epochs_per_step=2, truncated="mask")[0]
    for name in ("trained_rows", "rows_with_advantage", "rows_with_gradient", "truncated"):
        assert one[name] == four[name] == again[name] > 0


def test_smaller_portions_give_nearly_the_same_gradient(letters_model: Path, tmp_path: Path) -> None:
    whole = run(letters_model, tmp_path / "whole", steps=1)
    split = run(letters_model, tmp_path / "split", steps=1, micro_batch_tokens=20, generation_rows=4)
    for name in ("loss", "grad_norm", "reward", "sampled_nll", "completion_tokens"):
        assert split[0][name] == pytest.approx(whole[0][name], rel=1e-3, abs=1e-5)
