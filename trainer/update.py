"""One optimizer update: micro-batches by token budget, gradients summed with weights of the whole batch.

Legend: B rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from verigym.trainer.aggregate import token_weights, weighted_sum
from verigym.trainer.losses import LossAndMetrics
from verigym.trainer.policy import completion_logprobs, micro_batches

Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], LossAndMetrics]
Divergence = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Row:
    """One completion to train on."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    advantage: float
    trained: bool
    """False for an unscored completion, or a truncated one that is masked: out of every sum and every denominator."""
    sampler_logprobs: tuple[float, ...] | None = None
    """Log-probability of each token when it was sampled."""
    old_logprobs: tuple[float, ...] | None = None
    """The policy's before the first update on this batch; None where the first update is the only one."""


@dataclass(frozen=True)
class Objective:
    """What is minimised. `reference` is the frozen initial model, None where there is no KL term."""

    loss: Loss
    aggregation: str
    max_new_tokens: int
    temperature: float
    kl_coef: float = 0.0
    kl: Divergence | None = None
    reference: Any = None


def accumulate(
    model: Any, rows: Sequence[Row], objective: Objective, *, token_budget: int, pad_id: int, dtype: str
) -> dict[str, float]:
    """Add the batch's gradient to the model's parameters and return its metrics.

    A row whose gradient is exactly zero (advantage 0 and no KL term) skips the forward pass and keeps its place in the
    denominator; the other metrics are means over the tokens of the rows that do not skip it. A batch with nothing to train on
    leaves the gradients alone and returns no `loss`.
    """
    longest = max((len(row.token_ids) for row in rows), default=1)
    mask_BT = torch.tensor([[row.trained and t < len(row.token_ids) for t in range(longest)] for row in rows])
    weights_BT = token_weights(mask_BT, objective.aggregation, max_tokens=objective.max_new_tokens)
    active = [row.trained and (row.advantage != 0 or objective.kl_coef > 0) for row in rows]
    means_BT = token_weights(mask_BT & torch.tensor(active)[:, None], "token_mean")
    lengths = [len(row.prompt_ids) + len(row.token_ids) if on else 0 for row, on in zip(rows, active, strict=True)]
    metrics = {"trained_rows": float(sum(row.trained for row in rows)), "rows_with_gradient": float(sum(active))}
    sums: dict[str, torch.Tensor] = {}
    for numbers in micro_batches(lengths, token_budget):
        batch = [rows[number] for number in numbers]
        weights = (weights_BT[numbers].to(model.device), means_BT[numbers].to(model.device))
        parts = _micro_batch(model, batch, weights, objective, pad_id, dtype)
        parts["loss"].backward()  # type: ignore[no-untyped-call]
        for name, value in parts.items():
            sums[name] = sums.get(name, torch.zeros((), device=model.device)) + value.detach()
    metrics.update({name: float(value) for name, value in sums.items()})
    return metrics


def _micro_batch(
    model: Any,
    batch: Sequence[Row],
    weights: tuple[torch.Tensor, torch.Tensor],
    objective: Objective,
    pad_id: int,
    dtype: str,
) -> dict[str, torch.Tensor]:
    prompts, completions = [row.prompt_ids for row in batch], [row.token_ids for row in batch]
    arguments: dict[str, Any] = {"temperature": objective.temperature, "pad_id": pad_id, "dtype": dtype}
    logp_BT, mask_BT = completion_logprobs(model, prompts, completions, **arguments)
    width = logp_BT.shape[1]
    weights_BT, means_BT = (weight[:, :width] for weight in weights)
    old_BT = logp_BT.detach()
    if batch[0].old_logprobs is not None:
        old_BT = padded([row.old_logprobs or () for row in batch], width, logp_BT)
    advantages_B = torch.tensor([row.advantage for row in batch], device=logp_BT.device, dtype=logp_BT.dtype)
    loss_BT, details = objective.loss(logp_BT, old_BT, advantages_B)
    parts = {"loss": weighted_sum(loss_BT, weights_BT)}
    with torch.no_grad():
        parts["clip_fraction"] = weighted_sum(details["clipped_BT"].to(logp_BT.dtype), means_BT)
        if batch[0].sampler_logprobs is not None:
            sampled_BT = padded([row.sampler_logprobs or () for row in batch], width, logp_BT)
            parts["sampler_gap"] = weighted_sum((old_BT - sampled_BT).abs() * mask_BT, means_BT)
    if objective.kl is not None and objective.kl_coef > 0:
        with torch.no_grad():
            reference_BT, _ = completion_logprobs(objective.reference, prompts, completions, **arguments)
        kl_BT = objective.kl(logp_BT, reference_BT)
        parts["loss"] = parts["loss"] + objective.kl_coef * weighted_sum(kl_BT, weights_BT)
        parts["kl"] = weighted_sum(kl_BT.detach(), means_BT)
    return parts


def padded(values: Sequence[Sequence[float]], width: int, like: torch.Tensor) -> torch.Tensor:
    """Return the rows as one tensor, filled up with 0 to `width`."""
    rows = [[*row, *[0.0] * (width - len(row))] for row in values]
    return torch.tensor(rows, device=like.device, dtype=like.dtype)


@torch.no_grad()
def policy_logprobs(
    model: Any, rows: Sequence[Row], *, temperature: float, token_budget: int, pad_id: int, dtype: str
) -> list[tuple[float, ...]]:
    """Return each row's log-probabilities under the model as it is now, for several updates on one batch."""
    found: list[tuple[float, ...]] = [()] * len(rows)
    lengths = [len(row.prompt_ids) + len(row.token_ids) for row in rows]
    for numbers in micro_batches(lengths, token_budget):
        logp_BT, _ = completion_logprobs(
            model,
            [rows[n].prompt_ids for n in numbers],
            [rows[n].token_ids for n in numbers],
            temperature=temperature,
            pad_id=pad_id,
            dtype=dtype,
        )
        for number, row in zip(numbers, logp_BT.tolist(), strict=True):
            found[number] = tuple(row[: len(rows[number].token_ids)])
    return found


def learning_rate(step: int, *, peak: float, warmup: int, total: int, schedule: str) -> float:
    """Return the learning rate of a step counted from 0: linear rise over `warmup` steps, then constant, linear or cosine."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * SCHEDULES[schedule]((step - warmup) / max(1, total - warmup))


SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: float(0.5 * (1 + torch.cos(torch.tensor(done * torch.pi, dtype=torch.float64)))),
}
"""Factor of the peak after the warm-up, by the share of the remaining steps that is done, 0 to 1."""
