"""Estimators of KL(policy || reference) from one sampled token: k1, k2, k3 (Schulman, joschu.net/blog/kl-approx.html).

Shapes: B rows (completions), T tokens. The estimators return a value per token; `aggregate` has the weights to sum them.

Which estimator is right depends on where it is used. Below, `x` is the policy's log-probability of a token that the policy
sampled, `ref` is the reference's log-probability of the same token, and expectations are over the policy.

| | value | gradient in x | value unbiased | gradient unbiased, as a loss |
|---|---|---|---|---|
| k1 | x - ref | 1 | yes | no: it is 0 in expectation |
| k2 | (x - ref)^2 / 2 | x - ref | no | yes |
| k3 | exp(ref - x) - (ref - x) - 1 | 1 - exp(ref - x) | yes | no |
| on_policy(k3) | as k3 | x - ref | yes | yes (arXiv 2506.09477) |

In the reward, where only the value counts, k1 is right. In the loss, the gradient of k1 is that of the token's log-probability
and does not depend on the reference. If all tokens have the same weight, the mean of this gradient over the policy's own
completions is 0. If weights depend on a completion's length, as 1 / length in `sequence_mean`, the mean is not 0, but only
pushes the policy towards other lengths: it is the gradient of the expected weight. In both cases k1 adds variance and does not
keep the policy near the reference. No gradient flows into the reference.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from verigym.trainer.tensor_shapes import check_same_shape


def k1(logp_BT: torch.Tensor, ref_logp_BT: torch.Tensor) -> torch.Tensor:
    """Estimate the KL of each token by the log-ratio `x - ref`.

    The estimate is unbiased, may be negative and has high variance.

    Args:
        logp_BT: log-probabilities x of the sampled tokens under the policy, in nats.
        ref_logp_BT: the same under the reference model, in nats.

    Returns:
        The estimate for each token `[B, T]`, in nats.

    Raises:
        ValueError: the shapes differ or do not have two axes.
    """
    check_same_shape("BT", logp_BT=logp_BT, ref_logp_BT=ref_logp_BT)
    return logp_BT - ref_logp_BT.detach()


def k2(logp_BT: torch.Tensor, ref_logp_BT: torch.Tensor) -> torch.Tensor:
    """Estimate the KL of each token by half the squared log-ratio, `(x - ref)^2 / 2`.

    The value is biased; the gradient is that of the KL.

    Args:
        logp_BT: log-probabilities x of the sampled tokens under the policy, in nats.
        ref_logp_BT: the same under the reference model, in nats.

    Returns:
        The estimate for each token `[B, T]`, in nats; never negative.

    Raises:
        ValueError: the shapes differ or do not have two axes.
    """
    return 0.5 * k1(logp_BT, ref_logp_BT).square()


def k3(logp_BT: torch.Tensor, ref_logp_BT: torch.Tensor, *, max_log_ratio: float = 20.0) -> torch.Tensor:
    """Estimate the KL of each token by `exp(ref - x) - (ref - x) - 1`, as GRPO does (arXiv 2402.03300).

    The value is unbiased, with low variance.

    Args:
        logp_BT: log-probabilities x of the sampled tokens under the policy, in nats.
        ref_logp_BT: the same under the reference model, in nats.
        max_log_ratio: `ref - x` is clamped to plus or minus this many nats, with no gradient beyond. Otherwise one token that
            is likely under the reference and unlikely under the policy could dominate the loss, or make it inf. At most 88
            in float32.

    Returns:
        The estimate for each token `[B, T]`, in nats; never negative, up to rounding.

    Raises:
        ValueError: the shapes differ or do not have two axes, or `max_log_ratio` is not above 0.
    """
    if not max_log_ratio > 0.0:
        raise ValueError(f"max_log_ratio: expected a number above 0, in nats, got {max_log_ratio}")
    log_ratio_BT = (-k1(logp_BT, ref_logp_BT)).clamp(-max_log_ratio, max_log_ratio)
    # expm1, because near a ratio of 1, where training starts, exp(d) - 1 - d in float32 is only rounding error.
    return torch.expm1(log_ratio_BT) - log_ratio_BT


def on_policy(kl_BT: torch.Tensor, logp_BT: torch.Tensor) -> torch.Tensor:
    """Multiply `kl_BT` by the on-policy ratio `exp(x - stop_gradient(x))`.

    The ratio is 1, so the value does not change, but the gradient gains the score-function term. With k3, the result has the
    unbiased gradient of the reverse KL, which weighs each token by `x - ref` (arXiv 2506.09477).

    Args:
        kl_BT: an estimate from this module, in nats, still attached to `logp_BT`.
        logp_BT: log-probabilities x of the sampled tokens under the policy, in nats.

    Returns:
        The values of `kl_BT`, `[B, T]`, in nats, with the changed gradient.

    Raises:
        ValueError: the shapes differ or do not have two axes.
    """
    check_same_shape("BT", logp_BT=logp_BT, kl_BT=kl_BT)
    return kl_BT * (logp_BT - logp_BT.detach()).exp()


KL_ESTIMATORS: dict[str, Callable[..., torch.Tensor]] = {"k1": k1, "k2": k2, "k3": k3}
"""Every estimator by name. All take `(logp_BT, ref_logp_BT)`; `k3` also takes `max_log_ratio`."""
