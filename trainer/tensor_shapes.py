"""Checks of tensor shapes. A name's suffix gives the axes: `rewards_PG` and `scored_PG` both have the axes P and G."""

from __future__ import annotations

import torch


def check_same_shape(axes: str, **tensors: torch.Tensor) -> None:
    """Check that all tensors have one axis per letter of `axes` and the same shape.

    Without this check, broadcasting `[B]` against `[B, 1]` would give a plausible `[B, B]`.

    Args:
        axes: the axes, one letter each, such as `"BT"`.
        **tensors: the tensors, by the names to use in the error message.

    Raises:
        ValueError: a shape differs; the message gives the tensor's name, its shape and the expected shape.
    """
    (first_name, first), *others = tensors.items()
    if first.ndim != len(axes):
        raise ValueError(f"{first_name}: expected {len(axes)} axes [{', '.join(axes)}], got shape {list(first.shape)}")
    for name, tensor in others:
        if tensor.shape != first.shape:
            raise ValueError(f"{name}: expected shape {list(first.shape)} like {first_name}, got shape {list(tensor.shape)}")
