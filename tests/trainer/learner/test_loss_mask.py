"""Tokens that the policy only reads, such as a tool's output between its turns: they are context and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from exact import float64, relative
from groups import RIGHT, WRONG, group
from letters import LettersEnvironment

from verigym.trainer.credit.overlong import punish_overlong
from verigym.trainer.credit.rows import Credit, training_rows
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.engines.base import Generated
from verigym.trainer.learner.kl_reward import kl_penalties
from verigym.trainer.learner.update import Objective, accumulate
from verigym.trainer.losses.corrections import sampler_weights
from verigym.trainer.losses.kl import KL_ESTIMATORS, k3
from verigym.trainer.losses.table import LOSSES
from verigym.trainer.losses.token_level import clipped
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import verdict_metrics
from verigym.trainer.rollout.group_json import dump_group, load_group

WRITTEN = (True, True, False, False, True)
ROWS = [
    TrainingRow((5, 6, 7), (20, 21, 22, 23, 24), 1.5, True, loss_mask=WRITTEN),
    TrainingRow((5, 6, 7), (25, 26), -0.5, True),
    TrainingRow((8, 9), (27, 28, 29, 30), -0.8, True, loss_mask=(True, True, False, False)),
]
OBJECTIVE = Objective(loss=clipped, aggregation="token_mean", max_new_tokens=8, temperature=1.0)


@pytest.fixture(scope="module")
def exact_model(tiny_model: Any) -> Any:
    return float64(tiny_model)


def gradient(
    model: Any, rows: list[TrainingRow], objective: Objective = OBJECTIVE, **how: Any
) -> tuple[torch.Tensor, dict[str, float]]:
    model.zero_grad(set_to_none=True)
    metrics = accumulate(model, rows, objective, token_budget=1000, pad_id=0, **how)
    return torch.cat([p.grad.flatten() for p in model.parameters()]), metrics


def with_logprobs(rows: list[TrainingRow], unread: float) -> list[TrainingRow]:
    """Log-probabilities at sampling and before the update; `unread` at the tokens that were not written."""
    found = []
    for row in rows:
        own = row.loss_mask or (True,) * len(row.token_ids)
        sampled = tuple(-3.0 - 0.2 * t if mine else unread for t, mine in enumerate(own))
        old = tuple(-3.1 - 0.15 * t if mine else 2 * unread for t, mine in enumerate(own))
        found.append(replace(row, sampler_logprobs=sampled, old_logprobs=old))
    return found


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "fixed_length"])
@pytest.mark.parametrize("shared_prefix", [True, False])
def test_the_gradient_is_that_of_the_written_tokens_alone(exact_model: Any, aggregation: str, shared_prefix: bool) -> None:
    """Against a sum over the written tokens, from whole logits."""
    found, _ = gradient(exact_model, ROWS, replace(OBJECTIVE, aggregation=aggregation), shared_prefix=shared_prefix)
    exact_model.zero_grad(set_to_none=True)
    total = torch.zeros((), dtype=torch.float64)
    for row in ROWS:
        places = [t for t, own in enumerate(row.trained_mask) if own]
        logits = exact_model(torch.tensor([[*row.prompt_ids, *row.token_ids]])).logits[0, len(row.prompt_ids) - 1 : -1]
        logp = torch.log_softmax(logits, -1)[places, [row.token_ids[t] for t in places]]
        weight = {"token_mean": 1 / 7, "sequence_mean": 1 / (3 * len(places)), "fixed_length": 1 / (3 * 8)}[aggregation]
        total = total - weight * row.advantage * logp.sum()
    total.backward()  # type: ignore[no-untyped-call]
    assert relative(found, torch.cat([p.grad.flatten() for p in exact_model.parameters()])) < 1e-10


def test_what_follows_the_last_written_token_changes_nothing(exact_model: Any) -> None:
    short = replace(ROWS[2], token_ids=(27, 28), loss_mask=None)
    assert relative(gradient(exact_model, [ROWS[2]])[0], gradient(exact_model, [short])[0]) < 1e-12


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_log_probabilities_of_read_tokens_reach_nothing(exact_model: Any, loss: str) -> None:
    reference = float64(exact_model)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.02)
    objective = replace(
        OBJECTIVE,
        loss=LOSSES[loss].function,
        aggregation="sequence_mean",
        kl_coef=0.1,
        kl=k3,
        reference=reference,
        entropy_coef=0.01,
        correction=lambda logp, old, sampled, advantages, mask: sampler_weights(
            old, sampled, mask, kind="sequence_truncated", high=2.0
        ),
    )
    one, metrics = gradient(exact_model, with_logprobs(ROWS, 0.0), objective)
    two, others = gradient(exact_model, with_logprobs(ROWS, -9.0), objective)
    assert torch.equal(one, two) and metrics == others
    assert one.norm() > 1e-3


def test_a_row_of_nothing_written_is_not_run(exact_model: Any) -> None:
    read = replace(ROWS[1], loss_mask=(False, False))
    exact_model.zero_grad(set_to_none=True)
    metrics = accumulate(exact_model, [read], OBJECTIVE, token_budget=1000, pad_id=0)
    assert metrics["rows_with_gradient"] == 0 and "loss" not in metrics


def turns(*written: tuple[bool, ...] | None) -> Any:
    made = group("a", [RIGHT, WRONG], tokens=[5, 5])
    done = [Generated((7,) * 5, tuple(-1.0 if mine else 0.0 for mine in own or (True,) * 5), "stop", own) for own in written]
    return replace(made, generated=tuple(done))


def test_lengths_means_and_punishments_count_written_tokens() -> None:
    found = verdict_metrics([turns(WRITTEN, None)])
    assert found["completion_tokens"] == 4  # 3 and 5
    assert found["sampled_nll"] == 1
    punished = punish_overlong(turns(WRITTEN, None), 5, 2)
    assert [score.components["overlong"] for score in punished.scores] == [0, -1]


def test_a_checkpoint_keeps_what_was_written() -> None:
    made = turns(WRITTEN, None)
    assert load_group(json.loads(json.dumps(dump_group(made))), {"a": LettersEnvironment()}) == made


def test_rows_know_what_was_written(tiny_tokenizer: Any) -> None:
    lengths: list[Any] = []

    def seen(rewards: torch.Tensor, scored: torch.Tensor, *, lengths_PG: torch.Tensor) -> torch.Tensor:
        lengths.append(lengths_PG.tolist())
        return rewards

    (rows,) = training_rows([turns(WRITTEN, None)], {"a": Credit(seen)}, Codec(tiny_tokenizer), mask_truncated=False)
    assert [row.loss_mask for row in rows] == [WRITTEN, None]
    assert lengths == [[[3, 5]]]


def test_a_reward_loses_the_kl_of_written_tokens(tiny_model: Any) -> None:
    penalties = partial(
        kl_penalties, tiny_model, estimator=KL_ESTIMATORS["k1"], coef=0.5, temperature=1.0, token_budget=99, pad_id=0
    )
    part_BT, metrics = penalties(groups=[turns(WRITTEN, WRITTEN)])
    whole_BT, _ = penalties(groups=[turns(None, None)])
    own = torch.tensor(WRITTEN)
    assert torch.equal(part_BT[:, own], whole_BT[:, own])
    assert not part_BT[:, ~own].any() and whole_BT[:, ~own].all()
    assert metrics["kl"] == pytest.approx(float(part_BT.sum()) / 0.5 / 6)
