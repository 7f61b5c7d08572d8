"""One update: any split into micro-batches gives the same gradient, masked rows weigh nothing, schedules are what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from exact import float64, relative

from verigym.envs.contract.errors import UsageError
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.learner.optimizers import learning_rate
from verigym.trainer.learner.update import Objective, accumulate, policy_logprobs, with_old_logprobs
from verigym.trainer.logprobs import chunked
from verigym.trainer.logprobs.forward import checkpointing, usable_head
from verigym.trainer.logprobs.shared_prefix import shareable
from verigym.trainer.losses.kl import k3
from verigym.trainer.losses.table import LOSSES
from verigym.trainer.losses.token_level import clipped
from verigym.trainer.models.scratch import scratch_qwen3

ROWS = [
    TrainingRow((5, 6, 7), (20, 21, 22), 1.5, True),
    TrainingRow((5, 6, 7), (23,), -0.5, True),
    TrainingRow((8, 9), (24, 25, 26, 27, 28), -0.5, True),
    TrainingRow((8, 9), (29, 30), 0.0, True),
    TrainingRow((10,), (31, 32, 33), 0.7, True),
]
OBJECTIVE = Objective(loss=clipped, aggregation="token_mean", max_new_tokens=8, temperature=1.0)


def gradient(
    model: Any, rows: list[TrainingRow], objective: Objective = OBJECTIVE, budget: int = 1000, **how: Any
) -> tuple[torch.Tensor, Any]:
    model.zero_grad(set_to_none=True)
    metrics = accumulate(model, rows, objective, token_budget=budget, pad_id=0, **how)
    return flat_gradient(model), metrics


def flat_gradient(model: Any) -> torch.Tensor:
    parts = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(parts) if parts else torch.zeros(1)


LONG = [
    *ROWS,
    TrainingRow((5, 6, 7), (20,), 0.3, True),
    TrainingRow((11, 12, 13, 14, 15, 16), (40, 41, 42, 43, 44, 45, 46), -0.9, True),
    TrainingRow((11, 12, 13, 14, 15, 16), (40, 41), 0.4, True),
    TrainingRow((17, 18), (47,), 1.1, True),
    TrainingRow((8, 9), (24, 25), 0.0, True, token_advantages=(0.5, -0.5)),
]
"""Groups of different sizes, prompts of different lengths, completions of one token."""


@pytest.fixture(scope="module")
def exact_model(tiny_model: Any) -> Any:
    return float64(tiny_model)


@pytest.mark.parametrize(
    ("aggregation", "budget", "shared_prefix"),
    [
        *(("token_mean", budget, shared) for budget in (1, 9, 24, 60) for shared in (True, False)),
        *((name, 9, True) for name in ("sequence_mean", "fixed_length", "sequence_sum_mean")),
    ],
)
def test_packing_and_order_change_nothing(exact_model: Any, aggregation: str, budget: int, shared_prefix: bool) -> None:
    objective = replace(OBJECTIVE, aggregation=aggregation)
    whole, metrics = gradient(exact_model, LONG, objective, shared_prefix=False)
    split, split_metrics = gradient(exact_model, LONG, objective, budget, shared_prefix=shared_prefix)
    assert relative(split, whole) < 1e-12
    assert split_metrics == pytest.approx(metrics, rel=1e-12)
    for order in (LONG[::-1], LONG[1::2] + LONG[::2]):
        assert relative(gradient(exact_model, order, objective, budget, shared_prefix=shared_prefix)[0], whole) < 1e-12


@pytest.mark.parametrize("parts", [2, 4])
def test_a_batch_in_parts_with_the_weights_of_the_whole_adds_up(exact_model: Any, parts: int) -> None:
    # sequence_sum_mean weighs by rows alone, so parts of equal size need only a factor.
    objective = replace(OBJECTIVE, aggregation="sequence_sum_mean")
    rows = LONG[: len(LONG) // parts * parts]
    whole, _ = gradient(exact_model, rows, objective)
    total = sum(gradient(exact_model, rows[part::parts], objective)[0] / parts for part in range(parts))
    assert relative(total, whole) < 1e-12  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("old", [False, True])
def test_every_loss_gives_the_gradient_of_its_formula(exact_model: Any, loss: str, old: bool) -> None:
    """Against the loss on log-probabilities from whole logits, differentiated by autograd alone."""
    rows = [replace(row, token_advantages=None) for row in LONG]
    if old:
        rows = [replace(row, old_logprobs=tuple(-4.0 - 0.3 * t for t in range(len(row.token_ids)))) for row in rows]
    objective = replace(OBJECTIVE, loss=LOSSES[loss].function, aggregation="sequence_mean")
    found, metrics = gradient(exact_model, rows, objective, 24)
    trained = [row for row in rows if row.advantage]
    exact_model.zero_grad(set_to_none=True)
    total = torch.zeros((), dtype=torch.float64)
    for row in trained:
        ids = torch.tensor([[*row.prompt_ids, *row.token_ids]])
        logits = exact_model(ids).logits[0, len(row.prompt_ids) - 1 : -1]
        logp = torch.log_softmax(logits, -1)[range(len(row.token_ids)), list(row.token_ids)][None]
        before = torch.tensor([row.old_logprobs], dtype=torch.float64) if row.old_logprobs else logp.detach()
        values, _ = LOSSES[loss].function(logp, before, torch.tensor([row.advantage], dtype=torch.float64))
        total = total + values.mean() / len(rows)
    total.backward()  # type: ignore[no-untyped-call]
    expected = flat_gradient(exact_model)
    assert metrics["loss"] == pytest.approx(float(total.detach()), rel=1e-9, abs=1e-12)
    assert relative(found, expected) < 1e-10


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_first_update_on_a_batch_computes_logits_once(tiny_model: Any, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_head(tiny_model) and shareable(tiny_model)  # tried before the count begins
    calls: list[int] = []
    real = chunked._ChunkMath.log_softmax

    def counted(self: Any, hidden: torch.Tensor, *matrix: Any) -> Any:
        calls.append(len(hidden))
        return real(self, hidden, *matrix)

    monkeypatch.setattr(chunked._ChunkMath, "log_softmax", counted)
    objective = replace(OBJECTIVE, loss=LOSSES[loss].function, aggregation="sequence_mean")
    tokens = sum(len(row.token_ids) for row in LONG if any(row.advantages))
    gradient(tiny_model, LONG, objective, 24, chunk=2)
    assert sum(calls) == tokens
    old = [replace(row, old_logprobs=(-5.5,) * len(row.token_ids)) for row in LONG]
    calls.clear()
    gradient(tiny_model, old, objective, 24, chunk=2)
    assert tokens < sum(calls) <= 2 * tokens


def test_a_corrected_loss_is_weighed_token_by_token(exact_model: Any) -> None:
    rows = [replace(row, sampler_logprobs=(-3.0,) * len(row.token_ids)) for row in ROWS[:1]]
    plain, _ = gradient(exact_model, rows)
    halved, metrics = gradient(exact_model, rows, replace(OBJECTIVE, correction=lambda *tensors: 0.5 * tensors[-1].double()))
    assert relative(halved, plain / 2) < 1e-12
    assert metrics["correction"] == pytest.approx(0.5)


def test_the_gap_to_the_sampler_is_that_of_the_rows_this_policy_wrote(exact_model: Any) -> None:
    now = policy_logprobs(exact_model, ROWS, temperature=1.0, token_budget=1000, pad_id=0)
    near = [replace(row, sampler_logprobs=tuple(v + 0.25 for v in logp)) for row, logp in zip(ROWS, now, strict=True)]
    far = tuple(value - 5.0 for value in now[2])
    near[2] = replace(near[2], sampler_logprobs=far, off_policy=True)
    for objective in (OBJECTIVE, replace(OBJECTIVE, correction=lambda *tensors: tensors[-1].double())):
        for budget in (1000, 1):
            assert gradient(exact_model, near, objective, budget)[1]["logprob_mismatch"] == pytest.approx(0.25)
    old = replace(near[2], old_logprobs=far)
    assert gradient(exact_model, [*near[:2], old, *near[3:]])[1]["logprob_mismatch"] == pytest.approx(0.25)
    assert "logprob_mismatch" not in gradient(exact_model, [old])[1]


def test_rows_are_counted_by_what_moves_them(exact_model: Any) -> None:
    rows = [*LONG, TrainingRow((5,), (20,), 2.0, False)]
    _, metrics = gradient(exact_model, rows, replace(OBJECTIVE, entropy_coef=0.1))
    assert [metrics[name] for name in ("trained_rows", "rows_with_advantage", "rows_with_gradient")] == [10, 9, 10]


def test_the_entropy_bonus_raises_the_entropy(exact_model: Any) -> None:
    rows = [replace(row, advantage=0.0) for row in ROWS]
    objective = replace(OBJECTIVE, entropy_coef=0.3, temperature=0.7)
    found, metrics = gradient(exact_model, rows, objective, 9)
    assert metrics["rows_with_gradient"] == 5
    exact_model.zero_grad(set_to_none=True)
    total = torch.zeros((), dtype=torch.float64)
    for row in rows:
        logits = exact_model(torch.tensor([[*row.prompt_ids, *row.token_ids]])).logits[0, len(row.prompt_ids) - 1 : -1]
        total = total + torch.distributions.Categorical(logits=logits / 0.7).entropy().sum() / 14
    assert metrics["entropy"] == pytest.approx(float(total.detach()))
    (-0.3 * total).backward()  # type: ignore[no-untyped-call]
    assert relative(found, flat_gradient(exact_model)) < 1e-10


def test_old_logprobs_are_asked_for_where_there_are_none_and_a_gradient(tiny_model: Any) -> None:
    given = replace(ROWS[0], old_logprobs=(-9.0, -8.0, -7.0))
    groups = [[given, ROWS[1]], [ROWS[2], ROWS[3], replace(ROWS[4], trained=False)]]
    found = with_old_logprobs(tiny_model, groups, OBJECTIVE, token_budget=30, pad_id=0)
    assert found[0][0] is given
    assert [row.old_logprobs is None for row in found[1]] == [False, True, True]
    (alone,) = policy_logprobs(tiny_model, [ROWS[2]], temperature=1.0, token_budget=30, pad_id=0)
    assert found[1][0].old_logprobs == pytest.approx(alone, abs=1e-5)


def test_gradient_checkpointing_changes_nothing_and_leaves_no_trace(exact_model: Any) -> None:
    plain, _ = gradient(exact_model, LONG)
    modes = [module.training for module in exact_model.modules()]
    with checkpointing(exact_model, True):
        found, _ = gradient(exact_model, LONG, shared_prefix=False)
    assert relative(found, plain) < 1e-12
    assert [module.training for module in exact_model.modules()] == modes
    assert not any(getattr(module, "gradient_checkpointing", False) for module in exact_model.modules())
    with pytest.raises(UsageError, match="gradient_checkpointing"), checkpointing(torch.nn.Linear(2, 2), True):
        pass


def test_equals_a_naive_sum(tiny_model: Any) -> None:
    found, _ = gradient(tiny_model, ROWS)
    tiny_model.zero_grad(set_to_none=True)
    total = sum(len(row.token_ids) for row in ROWS)
    for row in ROWS:
        logits = tiny_model(torch.tensor([[*row.prompt_ids, *row.token_ids]])).logits[0, len(row.prompt_ids) - 1 : -1]
        logp = torch.log_softmax(logits, -1)[range(len(row.token_ids)), list(row.token_ids)]
        (-(row.advantage * logp).sum() / total).backward()
    expected = torch.cat([p.grad.flatten() for p in tiny_model.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_a_masked_row_is_in_no_sum_and_no_denominator(tiny_model: Any) -> None:
    masked = [*ROWS, TrainingRow((5,), (20, 21, 22, 23), 9.0, False)]
    torch.testing.assert_close(gradient(tiny_model, masked)[0], gradient(tiny_model, ROWS)[0], rtol=1e-4, atol=1e-7)


def test_a_row_without_advantage_keeps_its_place_in_the_denominator_without_a_forward_pass(tiny_model: Any) -> None:
    # In float64: other rows in a batch mean other sums inside a matrix product, which float32 shows.
    model = float64(tiny_model)
    with_zero, metrics = gradient(model, ROWS)
    without, _ = gradient(model, [row for row in ROWS if row.advantage])
    assert metrics["rows_with_gradient"] == 4
    torch.testing.assert_close(with_zero * 14, without * 12, rtol=1e-4, atol=1e-6)


def test_nothing_to_train_on_leaves_the_gradients_alone(tiny_model: Any) -> None:
    rows = [replace(row, trained=False) for row in ROWS]
    tiny_model.zero_grad(set_to_none=True)
    metrics = accumulate(tiny_model, rows, OBJECTIVE, token_budget=100, pad_id=0, dtype="fp32")
    assert "loss" not in metrics
    assert metrics["trained_rows"] == 0
    assert all(parameter.grad is None for parameter in tiny_model.parameters())


def test_kl_to_the_same_model_is_zero_and_to_another_pulls_back(tiny_model: Any, tiny_tokenizer: Any) -> None:
    rows = [replace(row, advantage=0.0) for row in ROWS]
    same = replace(OBJECTIVE, kl_coef=0.5, kl=k3, reference=tiny_model)
    found, metrics = gradient(tiny_model, rows, same)
    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert found.norm() < 1e-5
    other = scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=9)
    found, metrics = gradient(tiny_model, rows, replace(same, reference=other))
    assert metrics["kl"] > 1e-4
    assert found.norm() > 1e-4


def test_old_logprobs_of_the_same_policy_change_nothing(tiny_model: Any) -> None:
    old = policy_logprobs(tiny_model, ROWS, temperature=1.0, token_budget=9, pad_id=0, dtype="fp32")
    assert [len(row) for row in old] == [len(row.token_ids) for row in ROWS]
    with_old = [replace(row, old_logprobs=values) for row, values in zip(ROWS, old, strict=True)]
    found, metrics = gradient(tiny_model, with_old)
    torch.testing.assert_close(found, gradient(tiny_model, ROWS)[0], rtol=1e-3, atol=1e-6)
    assert metrics["clip_fraction"] == 0


@pytest.mark.parametrize(
    ("step", "schedule", "expected"),
    [(0, "constant", 0.25), (3, "constant", 1.0), (13, "constant", 1.0), (4, "linear", 1.0), (9, "linear", 0.5),
     (13, "linear", 0.1), (9, "cosine", 0.5), (4, "cosine", 1.0)],
)  # fmt: skip
def test_learning_rate(step: int, schedule: str, expected: float) -> None:
    assert learning_rate(step, peak=1.0, warmup=4, total=14, schedule=schedule) == pytest.approx(expected)
