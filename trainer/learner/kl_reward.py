"""KL in the reward: computes a penalty for each token, from how far the policy has moved from the reference model.

Legend: P prompts, G samples a prompt, B = P*G rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.learner.update import padded, policy_logprobs
from verigym.trainer.rollout.collect import Group


def kl_penalties(
    reference: Any,
    groups: Sequence[Group],
    estimator: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    coef: float,
    **forward: Any,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return (penalties_BT, metrics), where the penalties are `coef` times each token's KL to the reference.

    The caller subtracts each penalty from its token's reward, or subtracts their sum from the completion's reward. The policy's
    log-probabilities were stored at sampling, so only the reference needs a forward pass.

    Args:
        reference: a frozen model.
        groups: completions, the same number in each group.
        estimator: a function of `kl.KL_ESTIMATORS`; only its value matters here, not its gradient.
        coef: weight of the KL, in reward per nat.
        **forward: as for `update.policy_logprobs`.
    """
    rows = [
        TrainingRow(group.prompt_ids, done.token_ids, 0.0, True, done.logprobs, loss_mask=done.loss_mask)
        for group in groups
        for done in group.generated
    ]
    longest = max((len(row.token_ids) for row in rows), default=0)
    blank_BT = torch.zeros(len(rows), longest, dtype=torch.float64)
    sampled_BT = padded([row.sampler_logprobs or () for row in rows], blank_BT)
    mask_BT = padded([row.trained_mask for row in rows], blank_BT)
    kl_BT = mask_BT * estimator(sampled_BT, padded(policy_logprobs(reference, rows, **forward), blank_BT))
    return coef * kl_BT, {"kl": float(kl_BT.sum()) / max(1, int(mask_BT.sum()))}
