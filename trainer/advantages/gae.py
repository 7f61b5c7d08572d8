"""Generalised advantage estimation from a critic's values, and the critic's loss.

Shapes: B rows (completions), T tokens. The value of a token is the critic's estimate for the state *before* it: the prompt
and the tokens up to there.
"""

from __future__ import annotations

import torch

from verigym.trainer.tensor_shapes import check_same_shape


def gae(
    rewards_BT: torch.Tensor, values_BT: torch.Tensor, mask_BT: torch.Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute generalised advantage estimates: `A_t = sum_k (gamma lam)^k d_(t+k)`, `d_t = r_t + gamma V_(t+1) - V_t`.

    Here r_t is the reward of token t and V_t the value of the state before it; see Schulman et al., arXiv 1506.02438, equation
    16. With `lam` 1, the advantage is the return minus the value; with `lam` 0, it is the one-step error `d_t`. The value after
    a row's last token is 0. This also holds for a truncated row: its verdict judges the text so far, so no later reward is
    missing. Positions outside the mask are skipped: the successor of a token inside the mask is the next token inside it.

    Args:
        rewards_BT: reward of each token, in any unit; ignored outside the mask, like the values.
        values_BT: value of the state before each token, in the unit of the rewards.
        mask_BT: bool, True on the tokens that the policy sampled.
        gamma: discount per token, 0 to 1.
        lam: 0 to 1; a larger `lam` gives more weight to later rewards and less to the critic's values.

    Returns:
        (advantages_BT, returns_BT) in the unit of the rewards and the dtype of the values, both 0 outside the mask. The
        returns are advantage plus value; the critic is trained towards them.

    Raises:
        ValueError: the shapes differ, the mask is not bool, or `gamma` or `lam` is out of range.
    """
    check_same_shape("BT", values_BT=values_BT, rewards_BT=rewards_BT, mask_BT=mask_BT)
    if mask_BT.dtype != torch.bool:
        raise ValueError(f"mask_BT: expected a bool tensor, got {mask_BT.dtype}")
    for name, share in (("gamma", gamma), ("lam", lam)):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name}: expected a number from 0 to 1, got {share}")
    advantages_BT = torch.zeros_like(values_BT)
    ahead_B = value_B = values_BT.new_zeros(len(values_BT))
    for t in reversed(range(values_BT.shape[1])):
        error_B = rewards_BT[:, t] + gamma * value_B - values_BT[:, t]
        ahead_B = torch.where(mask_BT[:, t], error_B + gamma * lam * ahead_B, ahead_B)
        value_B = torch.where(mask_BT[:, t], values_BT[:, t], value_B)
        advantages_BT[:, t] = ahead_B.masked_fill(~mask_BT[:, t], 0.0)
    return advantages_BT, (advantages_BT + values_BT).masked_fill(~mask_BT, 0.0)


def whole_reward(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Return the rewards unchanged, 0 where unscored, in place of advantages.

    The setting `advantage: gae` uses this function. The learner's critic then turns these rewards into advantages of tokens
    by the function `gae`.

    Args:
        rewards_PG: rewards of P prompts with G samples each, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.
    """
    return rewards_PG.masked_fill(~scored_PG, 0.0)


def whitened(advantages_BT: torch.Tensor, mask_BT: torch.Tensor, *, eps: float = 1e-8) -> torch.Tensor:
    """Normalise the advantages of all tokens of the batch to mean 0 and standard deviation 1: `(A - mean) / (std + eps)`.

    The standard deviation divides by n - 1. A batch of one token, or of equal advantages, gets 0.

    Args:
        advantages_BT: advantages of the whole batch; ignored outside the mask.
        mask_BT: bool, True on the tokens that count.
        eps: added to the standard deviation, in the unit of the advantages.

    Returns:
        Advantages `[B, T]`, without a unit, 0 outside the mask.

    Raises:
        ValueError: the shapes differ or do not have two axes.
    """
    check_same_shape("BT", advantages_BT=advantages_BT, mask_BT=mask_BT)
    known_BT, count = advantages_BT.masked_fill(~mask_BT, 0.0), mask_BT.sum()
    centred_BT = (known_BT - known_BT.sum() / count.clamp(min=1)).masked_fill(~mask_BT, 0.0)
    deviation = (centred_BT.square().sum() / (count - 1).clamp(min=1)).sqrt()
    return centred_BT / (deviation + eps)


def value_loss(
    values_BT: torch.Tensor,
    old_values_BT: torch.Tensor,
    returns_BT: torch.Tensor,
    *,
    value_clip: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return half the squared error of the values, `(V - R)^2 / 2`, optionally clipped as in OpenAI's PPO2.

    With a clip c the loss is `max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2) / 2`: a value that has already moved by
    more than c towards its return gets no further gradient from this batch.

    Args:
        values_BT: values V of the present critic.
        old_values_BT: values V_old of the critic before the first update on the batch; no gradient flows into them.
        returns_BT: returns R, see `gae`; no gradient flows into them.
        value_clip: c, above 0, in the unit of the rewards; None for no clip.

    Returns:
        (loss_BT, clipped_BT): the loss in the squared unit of the rewards, and bool, True where the clip removed the gradient.

    Raises:
        ValueError: the shapes differ or do not have two axes, or `value_clip` is not above 0.
    """
    check_same_shape("BT", values_BT=values_BT, old_values_BT=old_values_BT, returns_BT=returns_BT)
    error_BT = (values_BT - returns_BT.detach()).square()
    if value_clip is None:
        return 0.5 * error_BT, torch.zeros_like(error_BT, dtype=torch.bool)
    if not value_clip > 0.0:
        raise ValueError(f"value_clip: expected a number above 0, or None for none, got {value_clip}")
    old_values_BT = old_values_BT.detach()
    near_BT = old_values_BT + (values_BT - old_values_BT).clamp(-value_clip, value_clip)
    clipped_error_BT = (near_BT - returns_BT.detach()).square()
    return 0.5 * torch.maximum(error_BT, clipped_error_BT), (clipped_error_BT > error_BT).detach()
