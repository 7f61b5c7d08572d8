"""Log-probabilities for the tests of losses. Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import torch

OLD_BT = torch.full((1, 3), -1.0, dtype=torch.float64)
ADVANTAGES_BT = torch.tensor([[1.0, -1.0, 2.0]], dtype=torch.float64)


def at_ratio(*ratios: float) -> torch.Tensor:
    """Log-probabilities whose ratio to `OLD_BT` is as given."""
    return (torch.tensor([ratios], dtype=torch.float64).log() + OLD_BT).requires_grad_()
