"""Reward of a solution from the rewards of its steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Aggregation = Literal["min", "product", "last", "mean"]

# No sum: it pays for many steps, and training on it collapses at once (PURE, arXiv 2504.15275).
AGGREGATIONS: dict[Aggregation, Callable[[Sequence[float]], float]] = {
    "min": min,
    "product": math.prod,
    "last": lambda rewards: rewards[-1],
    "mean": lambda rewards: math.fsum(rewards) / len(rewards),
}


def aggregate(rewards: Sequence[float], how: Aggregation = "min") -> float:
    """Return one reward in [0, 1] that combines the rewards of steps, each a probability.

    Args:
        rewards: at least one, each in [0, 1].
        how: `min`, the reward of the worst step (2504.15275); `product`, the probability that all steps are right if they are
            independent (Lightman et al., 2305.20050); `last`, the reward of the last step; `mean`, their mean.

    Raises:
        ValueError: there are no rewards, or one is outside [0, 1].
    """
    if not rewards:
        raise ValueError("aggregate: expected at least one step's reward, got none")
    for number, reward in enumerate(rewards):
        if not 0 <= reward <= 1:  # nan too
            raise ValueError(f"aggregate: reward {number} is {reward}; expected a number in [0, 1]")
    return min(1.0, max(0.0, float(AGGREGATIONS[how](rewards))))
