"""KL in the reward: what a completion loses because the policy that wrote it has moved away from the initial model.

Legend: P prompts, G samples a prompt, B = P*G rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from verigym.trainer.rollout import Group
from verigym.trainer.update import Row, padded, policy_logprobs


def kl_penalties(
    reference: Any,
    groups: Sequence[Group],
    estimator: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    coef: float,
    **forward: Any,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return (penalties_PG, metrics): `coef` times each completion's KL, summed over its tokens, to take off its reward.

    The policy's log-probabilities are those that its tokens were sampled with, so only the reference is run.

    Args:
        reference: the frozen initial model.
        groups: completions, the same number in each.
        estimator: a function of `kl.KL_ESTIMATORS`; only its value counts here.
        coef: reward a nat.
        **forward: as for `update.policy_logprobs`.
    """
    rows = [Row(group.prompt_ids, done.token_ids, 0.0, True, done.logprobs) for group in groups for done in group.generated]
    longest = max((len(row.token_ids) for row in rows), default=0)
    blank_BT = torch.zeros(len(rows), longest, dtype=torch.float64)
    sampled_BT = padded([row.sampler_logprobs or () for row in rows], blank_BT)
    kl_BT = estimator(sampled_BT, padded(policy_logprobs(reference, rows, **forward), blank_BT))
    tokens = sum(len(row.token_ids) for row in rows)
    return coef * kl_BT.sum(1).reshape(len(groups), -1), {"kl": float(kl_BT.sum()) / max(1, tokens)}
