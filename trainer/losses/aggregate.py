"""Aggregates per-token losses into one number, by a weight for each token: `loss = (loss_BT * weights_BT).sum()`.

Shapes: B rows (completions), T tokens.

Weights are computed once over the whole optimizer batch and stay with their rows. Micro-batches only sum, so any split, packing
or order of the batch gives the gradient of one large batch. A mean per micro-batch would not.

A row without a trained token (because its verifier failed, or it was filtered out) counts in no denominator. If all rows of a
batch are without trained tokens, weights and loss are 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from verigym.trainer.tensor_shapes import check_same_shape


def _tokens_B1(mask_BT: torch.Tensor) -> torch.Tensor:
    return mask_BT.sum(dim=1, keepdim=True)


def _rows(mask_BT: torch.Tensor) -> torch.Tensor:
    """Count the rows with a trained token; at least 1, because it is a divisor."""
    return mask_BT.any(dim=1).sum().clamp(min=1)


def sequence_mean(mask_BT: torch.Tensor, max_tokens: int | None = None) -> torch.Tensor:
    """Return GRPO's weights, for the mean over sequences of the mean over tokens: `1 / (rows * tokens of the row)`.

    See arXiv 2402.03300. A token of a long completion weighs less than a token of a short one. See `token_weights` for the
    arguments.
    """
    return 1.0 / (_rows(mask_BT) * _tokens_B1(mask_BT).clamp(min=1)).double()


def token_mean(mask_BT: torch.Tensor, max_tokens: int | None = None) -> torch.Tensor:
    """Return weights for the mean over all N trained tokens of the batch: `1 / N` (DAPO, arXiv 2503.14476).

    See `token_weights` for the arguments.
    """
    return 1.0 / mask_BT.sum().clamp(min=1).double()


def fixed_length(mask_BT: torch.Tensor, max_tokens: int | None = None) -> torch.Tensor:
    """Return weights for the sum over tokens divided by a constant length: `1 / (rows * max_tokens)`.

    This is the aggregation of Dr. GRPO (arXiv 2503.20783). See `token_weights` for the arguments.

    Raises:
        ValueError: `max_tokens` is missing, below 1, or less than the number of trained tokens of a row.
    """
    if max_tokens is None or max_tokens < 1:
        raise ValueError(f"max_tokens: fixed_length needs the generation limit, at least 1 token, got {max_tokens}")
    longest = int(_tokens_B1(mask_BT).max()) if len(mask_BT) else 0
    if longest > max_tokens:
        raise ValueError(f"max_tokens: a row has {longest} trained tokens, more than the limit of {max_tokens}")
    return 1.0 / (_rows(mask_BT) * max_tokens).double()


def sequence_sum_mean(mask_BT: torch.Tensor, max_tokens: int | None = None) -> torch.Tensor:
    """Return weights for the mean over sequences of the sum over tokens: `1 / rows`. See `token_weights` for the arguments."""
    return 1.0 / _rows(mask_BT).double()


AGGREGATIONS: dict[str, Callable[[torch.Tensor, int | None], torch.Tensor]] = {
    "sequence_mean": sequence_mean,
    "token_mean": token_mean,
    "fixed_length": fixed_length,
    "sequence_sum_mean": sequence_sum_mean,
}
"""Every aggregation by name: a function that returns float64 weights of the tokens, in a shape that broadcasts to `[B, T]`."""


def token_weights(
    mask_BT: torch.Tensor, kind: str, *, max_tokens: int | None = None, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Return the weight in the loss of every token of the optimizer batch.

    Args:
        mask_BT: bool, True on the tokens to train on, for the *whole* optimizer batch and not a micro-batch.
        kind: a name in `AGGREGATIONS`.
        max_tokens: the generation limit, in tokens; `fixed_length` divides by it, the others ignore it.
        dtype: dtype of the result.

    Returns:
        Weights `[B, T]`, 0 where the mask is False; index them with the rows of a micro-batch.

    Raises:
        ValueError: the mask is not a bool `[B, T]`, `kind` is unknown, or `max_tokens` does not fit.
    """
    check_same_shape("BT", mask_BT=mask_BT)
    if mask_BT.dtype != torch.bool:
        raise ValueError(f"mask_BT: expected a bool tensor, got {mask_BT.dtype}")
    if kind not in AGGREGATIONS:
        raise ValueError(f"kind: unknown aggregation {kind!r}; known: {', '.join(sorted(AGGREGATIONS))}")
    weight = AGGREGATIONS[kind](mask_BT, max_tokens).to(dtype)
    return weight.expand(mask_BT.shape).masked_fill(~mask_BT, 0.0)


def weighted_sum(values_BT: torch.Tensor, weights_BT: torch.Tensor) -> torch.Tensor:
    """Reduce one micro-batch to `sum(values * weights)`. The loss of the batch is the sum over its micro-batches.

    Args:
        values_BT: a loss, a KL or a metric, for each token.
        weights_BT: the rows of `token_weights` that belong to the micro-batch.

    Returns:
        A scalar in the unit of the values. The scalar stays attached to the values even if every weight is 0, so that
        `backward` works and gives 0. A nan value of weight 0 does not affect the sum. The backward pass, however, gives nan
        gradients to the inputs of that value; see `losses`.

    Raises:
        ValueError: the shapes differ or do not have two axes.
    """
    check_same_shape("BT", values_BT=values_BT, weights_BT=weights_BT)
    return (values_BT.masked_fill(weights_BT == 0, 0.0) * weights_BT).sum()
