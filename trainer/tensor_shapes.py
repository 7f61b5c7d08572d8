"""One check for the shapes that suffixes promise: `rewards_PG` has two axes, P and G, and agrees with `scored_PG`."""

from __future__ import annotations

import torch


def check_same_shape(axes: str, **tensors: torch.Tensor) -> None:
    """Refuse tensors that do not all have one axis a letter of `axes`, and the same sizes.

    Broadcasting would otherwise turn a `[B]` against a `[B, 1]` into a plausible `[B, B]`.

    Args:
        axes: the suffix, such as `"BT"`; its length is the number of axes.
        **tensors: what to check, under the names that the message shall use.

    Raises:
        ValueError: naming the tensor, its shape and the shape that was expected.
    """
    (first_name, first), *others = tensors.items()
    if first.ndim != len(axes):
        raise ValueError(f"{first_name}: expected {len(axes)} axes [{', '.join(axes)}], got shape {list(first.shape)}")
    for name, tensor in others:
        if tensor.shape != first.shape:
            raise ValueError(f"{name}: expected shape {list(first.shape)} like {first_name}, got shape {list(tensor.shape)}")
