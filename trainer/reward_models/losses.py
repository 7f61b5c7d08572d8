"""Losses of reward models: pure functions.

Legend: B preference pairs, N labelled steps.
"""

from __future__ import annotations

import torch
from torch.nn.functional import logsigmoid


def bradley_terry_loss(
    chosen_B: torch.Tensor,
    rejected_B: torch.Tensor,
    margin_B: torch.Tensor | None = None,
    *,
    centre: float = 0.0,
    total: int | None = None,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the negative log-likelihood of the preferences under Bradley and Terry's model, in nats.

    The loss is `sum_B [-log sigmoid(r_c - r_r - m) + centre (r_c + r_r)^2] / total`, as in InstructGPT (Ouyang et al., arXiv
    2203.02155, equation 1), with the margin m of Llama 2 (Touvron et al., arXiv 2307.09288, section 3.2.2, equation 2) and
    the centring regulariser of Eisenstein et al. (arXiv 2312.09244). Without the regulariser, only differences of outputs
    are determined.

    Args:
        chosen_B: r_c, the model's outputs for the preferred answers.
        rejected_B: r_r, the model's outputs for the other answers.
        margin_B: m, by how much the preferred answer is better, in units of the output; None for 0.
        centre: weight of the regulariser; 0.01 in the paper.
        total: the denominator: the number of pairs of the whole batch, so that the losses of micro-batches add up to the loss
            of the batch. None for B.

    Returns:
        The loss, and two detached metrics, each a sum over the B pairs divided by `total`. In `accuracy` a pair adds 1 if
        `r_c > r_r`, a half if both are equal, else 0. In `margin` a pair adds `r_c - r_r`; m has no effect on the metrics.

    Raises:
        ValueError: the shapes do not fit, or `centre` or `total` is out of range.
    """
    if chosen_B.ndim != 1 or chosen_B.shape != rejected_B.shape:
        raise ValueError(f"outputs must both be [B]; got {list(chosen_B.shape)} and {list(rejected_B.shape)}")
    if margin_B is not None and margin_B.shape != chosen_B.shape:
        raise ValueError(f"margin_B is {list(margin_B.shape)}, expected {list(chosen_B.shape)}")
    if not centre >= 0:
        raise ValueError(f"centre is {centre}; give a weight of at least 0")
    total = len(chosen_B) if total is None else total
    if total < 1:
        raise ValueError(f"total is {total}; a loss needs at least one pair")
    gap_B = chosen_B - rejected_B
    loss_B = -logsigmoid(gap_B if margin_B is None else gap_B - margin_B)
    if centre:
        loss_B = loss_B + centre * (chosen_B + rejected_B) ** 2
    gap_B = gap_B.detach()
    right_B = (gap_B > 0).float() + 0.5 * (gap_B == 0).float()
    return loss_B.sum() / total, {"accuracy": right_B.sum() / total, "margin": gap_B.sum() / total}


def step_loss(logits_N2: torch.Tensor, label_N: torch.Tensor, *, total: int | None = None) -> torch.Tensor:
    """Return the cross-entropy `-(y log p_1 + (1 - y) log p_0)` of steps, in nats, with `p = softmax(logits)`.

    The loss is the sum over N steps, divided by `total`. With hard labels this is the objective of Qwen2.5-Math-PRM (arXiv
    2501.07301), with soft labels that of Math-Shepherd's soft estimation (arXiv 2312.08935, section 3.3.2).

    Args:
        logits_N2: logits of class 0, a wrong step, and class 1, a right step.
        label_N: y, in [0, 1].
        total: the denominator, the number of steps of the whole batch; None for N.

    Raises:
        ValueError: the shapes do not fit together.
    """
    if logits_N2.ndim != 2 or logits_N2.shape != (len(label_N), 2):
        raise ValueError(f"logits_N2 is {tuple(logits_N2.shape)}, expected ({len(label_N)}, 2)")
    logp_N2 = torch.log_softmax(logits_N2, dim=-1)
    return -(label_N * logp_N2[:, 1] + (1 - label_N) * logp_N2[:, 0]).sum() / (total or len(label_N))
