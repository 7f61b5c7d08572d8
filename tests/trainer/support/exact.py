"""Models in float64 throughout: transformers computes norms and rotary angles in float32 whatever the weights are."""

from __future__ import annotations

import copy
from types import MethodType
from typing import Any

import torch


def _norm(self: Any, hidden: torch.Tensor) -> torch.Tensor:
    return self.weight * (hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))  # type: ignore[no-any-return]


def float64(model: Any) -> Any:
    """Return a copy whose results depend on the order of sums by 1e-14, not by 1e-7."""
    model = copy.deepcopy(model).double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(_norm, module)
    return model


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of the difference over the norm of what was expected."""
    return float((found - expected).norm() / expected.norm())
