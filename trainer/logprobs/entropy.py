"""Entropy of the next token, for an entropy bonus (`loss - coef * entropy`) and as a figure of a collapsing policy.

Shapes: V vocabulary.
"""

from __future__ import annotations

import torch


def token_entropy(logp_V: torch.Tensor) -> torch.Tensor:
    """Return `-sum p log p` of each distribution of a chunk.

    Args:
        logp_V: log-probabilities `[..., V]`, the log-softmax of logits that were divided by the temperature, in nats; -inf
            for tokens that cannot come.

    Returns:
        Entropies `[...]`, in nats, from 0 to log V, with a gradient.
    """
    # A probability of 0 has an infinite logarithm; their product is 0, and so is its gradient.
    return -(logp_V.exp() * logp_V.clamp(min=-1e4)).sum(dim=-1)
