"""Computes the gradient of one update, in micro-batches within a token budget, with the token weights of the whole batch.

Legend: B rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from verigym.trainer.config.update import UpdateFields
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.balance import share_rows
from verigym.trainer.distributed.fsdp import gathered
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.logprobs.chunked import ExpectedGradient
from verigym.trainer.logprobs.forward import CompletionLogprobs, ForwardOptions
from verigym.trainer.logprobs.shared_prefix import micro_batch_passes
from verigym.trainer.losses.aggregate import token_weights, weighted_sum
from verigym.trainer.losses.common import LossAndMetrics
from verigym.trainer.models.lora import opened

Divergence = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Correction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes (logp_BT, old_logp_BT, sampler_logp_BT, advantages_BT, mask_BT) and returns constant weights for the tokens' losses."""


@dataclass(frozen=True)
class Objective:
    """Everything that defines the loss of an update: the policy loss, its aggregation, the KL term and the other terms.

    For the KL, `reference` is a frozen model, or the policy with its adapters off or replaced (`lora.opened`).
    """

    loss: Callable[..., LossAndMetrics]
    aggregation: str
    max_new_tokens: int
    temperature: float
    kl_coef: float = 0.0
    kl: Divergence | None = None
    reference: Any = None
    correction: Correction | None = None
    entropy_coef: float = 0.0

    def learns_from(self, row: TrainingRow) -> bool:
        """Return True if `row` can have a gradient other than 0."""
        always = self.kl_coef > 0 or self.entropy_coef > 0
        return any(on and (always or advantage) for on, advantage in zip(row.trained_mask, row.advantages, strict=True))


def accumulate(
    model: Any,
    rows: Sequence[TrainingRow],
    objective: Objective,
    *,
    token_budget: int,
    pad_id: int,
    dtype: str = "fp32",
    shared_prefix: bool = True,
    chunk: int | None = None,
    world: World = SOLO,
) -> dict[str, float]:
    """Add the gradient of a batch to the model's parameters and return the batch's metrics.

    A row whose gradient is exactly zero (advantage 0, no KL and no entropy bonus) is not run through the model, but it counts
    in the denominator of the loss. If this holds for all rows, the model's gradients do not change, and the only metrics are
    the counts of rows.

    The metric `loss` is the loss of the whole batch. The other metrics, except the counts of rows, are means over the tokens
    of the rows that were run; `logprob_mismatch` leaves out off-policy rows.

    With several processes, each runs its share of the rows. The weights of the tokens and the metrics returned are those of
    the whole batch in every process. For the keyword arguments see `ForwardOptions`.
    """
    how = ForwardOptions(pad_id, objective.temperature, dtype, token_budget, shared_prefix, chunk, objective.entropy_coef > 0)
    longest = max((len(row.token_ids) for row in rows), default=1)
    mask_BT = padded([row.trained_mask for row in rows], torch.zeros(len(rows), longest, dtype=torch.bool))
    active = [objective.learns_from(row) for row in rows]
    numbers = [number for number, on in enumerate(active) if on]
    metrics = {
        "trained_rows": float(sum(row.trained for row in rows)),
        "rows_with_advantage": float(sum(row.trained and any(row.advantages) for row in rows)),
        "rows_with_gradient": float(len(numbers)),
    }
    if not numbers:
        return metrics
    # In float64, so that a float64 model gets weights of its own precision.
    weights_BT = token_weights(mask_BT, objective.aggregation, max_tokens=objective.max_new_tokens, dtype=torch.float64)
    means_BT = token_weights(mask_BT & torch.tensor(active)[:, None], "token_mean", dtype=torch.float64)
    on_policy = [on and not row.off_policy for on, row in zip(active, rows, strict=True)]
    on_policy_BT = token_weights(mask_BT & torch.tensor(on_policy)[:, None], "token_mean", dtype=torch.float64)
    prompts, completions = [row.prompt_ids for row in rows], [row.token_ids for row in rows]
    local = share_rows(prompts, completions, numbers, world)
    reference: Sequence[tuple[float, ...]] = ()
    if objective.kl is not None and objective.kl_coef > 0:
        reference = _logprobs(objective.reference, rows, local, replace(how, entropy=False))
    sums: dict[str, torch.Tensor] = {}
    with gathered(model):
        for batch, run in micro_batch_passes(model, prompts, completions, local, how):
            part = _MicroBatch(
                objective,
                [rows[number] for number in batch],
                [reference[number] for number in batch] if reference else None,
                weights_BT[batch].to(model.device),
                means_BT[batch].to(model.device),
                on_policy_BT[batch].to(model.device),
            )
            values = part.values(run(part.expected if part.predictable else None))
            values["loss"].backward()  # type: ignore[no-untyped-call]
            for name, value in values.items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value.detach()
    metrics.update(world.total({name: float(value) for name, value in sums.items()}))
    return metrics


@dataclass(frozen=True)
class _MicroBatch:
    """Some rows with their token weights in the whole batch. The weights are as wide (L) as its longest completion."""

    objective: Objective
    rows: Sequence[TrainingRow]
    reference: Sequence[tuple[float, ...]] | None
    weights_BL: torch.Tensor
    """For the loss."""
    means_BL: torch.Tensor
    """For metrics that are means over all tokens."""
    on_policy_BL: torch.Tensor
    """For metrics that are means over the tokens of on-policy rows."""

    @property
    def predictable(self) -> bool:
        """Return True if the loss's gradient at the log-probabilities is known before they are computed.

        This holds if the ratio is 1 and the other factors are constant.
        """
        first_update = all(row.old_logprobs is None for row in self.rows)
        return first_update and self.reference is None and self.objective.correction is None

    def expected(self, zeros_BT: torch.Tensor, mask_BT: torch.Tensor) -> ExpectedGradient:
        """Return the gradient that the first update on a batch has at the real tokens; see `ExpectedGradient`."""
        weights_BT = self._cut(self.weights_BL, zeros_BT)
        with torch.enable_grad():
            logp_BT = zeros_BT.clone().requires_grad_()
            trained_BT = self._trained(mask_BT)
            loss_BT, _ = self.objective.loss(logp_BT, zeros_BT, self._advantages(zeros_BT), mask_BT=trained_BT)
            (gradient_BT,) = torch.autograd.grad(weighted_sum(loss_BT, weights_BT), logp_BT)
        return ExpectedGradient(gradient_BT[mask_BT], -self.objective.entropy_coef * weights_BT[mask_BT])

    def values(self, scored: CompletionLogprobs) -> dict[str, torch.Tensor]:
        """Return, by name, the micro-batch's share of the loss, attached to the graph, and of the metrics."""
        objective, logp_BT, mask_BT = self.objective, scored.logp_BT, self._trained(scored.mask_BT)
        weights_BT, means_BT = self._cut(self.weights_BL, logp_BT), self._cut(self.means_BL, logp_BT)
        old_BT = logp_BT.detach()
        given = [row.old_logprobs is not None for row in self.rows]
        if any(given):
            given_B1 = torch.tensor(given, device=logp_BT.device)[:, None]
            old_BT = torch.where(given_B1, padded([row.old_logprobs or () for row in self.rows], logp_BT), old_BT)
        advantages_BT = self._advantages(logp_BT)
        loss_BT, details = objective.loss(logp_BT, old_BT, advantages_BT, mask_BT=mask_BT)
        values = {"clip_fraction": weighted_sum(details["clipped_BT"].to(logp_BT.dtype), means_BT)}
        if self.rows[0].sampler_logprobs is not None:
            sampled_BT = padded([row.sampler_logprobs or () for row in self.rows], logp_BT)
            if not all(row.off_policy for row in self.rows):
                on_policy_BT = self._cut(self.on_policy_BL, logp_BT)
                values["logprob_mismatch"] = weighted_sum((old_BT - sampled_BT).abs() * mask_BT, on_policy_BT)
            if objective.correction is not None:
                correction_BT = objective.correction(logp_BT.detach(), old_BT, sampled_BT, advantages_BT, mask_BT)
                values["correction"] = weighted_sum(correction_BT, means_BT)
                loss_BT = loss_BT * correction_BT
        loss = weighted_sum(loss_BT, weights_BT)
        if self.reference is not None and objective.kl is not None:
            kl_BT = objective.kl(logp_BT, padded(self.reference, logp_BT))
            loss = loss + objective.kl_coef * weighted_sum(kl_BT, weights_BT)
            values["kl"] = weighted_sum(kl_BT.detach(), means_BT)
        if objective.entropy_coef > 0:
            loss = loss - objective.entropy_coef * weighted_sum(scored.entropy_BT, weights_BT)
            values["entropy"] = weighted_sum(scored.entropy_BT.detach(), means_BT)
        return {"loss": loss, **values}

    def _advantages(self, like: torch.Tensor) -> torch.Tensor:
        return padded([row.advantages for row in self.rows], like)

    def _trained(self, mask_BT: torch.Tensor) -> torch.Tensor:
        return padded([row.trained_mask for row in self.rows], mask_BT)

    def _cut(self, weights_BL: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return weights_BL[:, : like.shape[1]].to(like.dtype)


def padded(values: Sequence[Sequence[float]], like: torch.Tensor) -> torch.Tensor:
    """Return `values` as one tensor with the shape, dtype and device of `like`, each row padded with 0 (or False)."""
    rows = [[*row, *[0] * (like.shape[1] - len(row))] for row in values]
    return torch.tensor(rows, device=like.device, dtype=like.dtype)


def policy_logprobs(
    model: Any,
    rows: Sequence[TrainingRow],
    *,
    temperature: float,
    token_budget: int,
    pad_id: int,
    dtype: str = "fp32",
    shared_prefix: bool = True,
    chunk: int | None = None,
    world: World = SOLO,
) -> list[tuple[float, ...]]:
    """Return, for each row, the log-probabilities of its completion's tokens under `model`, without gradient.

    For the keyword arguments see `ForwardOptions`.
    """
    how = ForwardOptions(pad_id, temperature, dtype, token_budget, shared_prefix, chunk)
    local = share_rows([row.prompt_ids for row in rows], [row.token_ids for row in rows], range(len(rows)), world)
    logprobs = _logprobs(model, rows, local, how)
    everywhere = dict(pair for part in world.gather([(number, logprobs[number]) for number in local]) for pair in part)
    return [everywhere[number] for number in range(len(rows))]


@torch.no_grad()
def _logprobs(model: Any, rows: Sequence[TrainingRow], numbers: Sequence[int], how: ForwardOptions) -> list[tuple[float, ...]]:
    logprobs: list[tuple[float, ...]] = [()] * len(rows)
    prompts, completions = [row.prompt_ids for row in rows], [row.token_ids for row in rows]
    with opened(model) as live, gathered(live):
        for batch, run in micro_batch_passes(live, prompts, completions, numbers, how):
            for number, row in zip(batch, run(None).logp_BT.tolist(), strict=True):
                logprobs[number] = tuple(row[: len(completions[number])])
    return logprobs


def with_old_logprobs(
    model: Any, rows_by_group: Sequence[Sequence[TrainingRow]], objective: Objective, **forward: Any
) -> list[list[TrainingRow]]:
    """Return the rows with their old log-probabilities set to those of the current `model`.

    Call this before several updates on the same rows. Rows that already have old log-probabilities keep them, and rows without
    a gradient get none. For the keyword arguments see `accumulate`.
    """
    pending = [row for rows in rows_by_group for row in rows if row.old_logprobs is None and objective.learns_from(row)]
    logprobs = policy_logprobs(model, pending, temperature=objective.temperature, **forward)
    old = {id(row): logp for row, logp in zip(pending, logprobs, strict=True)}
    return [[replace(row, old_logprobs=old[id(row)]) if id(row) in old else row for row in rows] for rows in rows_by_group]


def forward_options(config: UpdateFields, pad_id: int, dtype: str) -> dict[str, Any]:
    """Return the keyword arguments for `accumulate` and `policy_logprobs` that the settings in `config` determine."""
    return {
        "token_budget": config.micro_batch_tokens,
        "pad_id": pad_id,
        "dtype": dtype,
        "shared_prefix": config.shared_prefix and not config.gradient_checkpointing,
        "chunk": config.logprob_chunk,
    }
