"""Policy losses, per token and to be minimised. They do not reduce: `aggregate` owns the weights of the tokens.

Shapes: B rows (completions), T tokens. A new loss is a function and a line in the table of its own file:
`losses_token` (one ratio a token) or `losses_sequence` (one loss a completion). All of them share:

- the call `loss(logp_BT, old_logp_BT, advantages, *, mask_BT=None, **own_settings) -> (loss_BT, metrics)`;
- advantages `[B]` or `[B, T]`, which like the old log-probabilities are constants;
- outside `mask_BT` the loss and every gradient are 0, whatever stands there, nan and inf included. Without a mask,
  padded places need finite log-probabilities (0 will do): a weight of 0 hides a nan value, but not the nan in its gradient.
"""

from __future__ import annotations

from collections.abc import Callable

from verigym.trainer.losses.common import LossAndMetrics
from verigym.trainer.losses.sequence_level import LOSSES_OF_SEQUENCES
from verigym.trainer.losses.token_level import LOSSES_OF_TOKENS, clipped

__all__ = ["LOSSES", "SEQUENCE_LOSSES", "LossAndMetrics", "clipped"]

LOSSES: dict[str, Callable[..., LossAndMetrics]] = {**LOSSES_OF_TOKENS, **LOSSES_OF_SEQUENCES}
"""Every loss by name. All take `(logp_BT, old_logp_BT, advantages, *, mask_BT=None)`; other keywords are their own."""

SEQUENCE_LOSSES: frozenset[str] = frozenset(LOSSES_OF_SEQUENCES)
"""Names of the losses that need the aggregation `sequence_mean`: with another, a row would count by its length."""
