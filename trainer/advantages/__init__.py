"""Advantages: how much better a completion is than others, from the rewards alone.

Shapes: P prompts, G samples a prompt. Row-major flattening of `[P, G]` gives the B = P*G rows of a batch. A new variant
is a function and a line in the table of its own file: `advantages_group` or `advantages_batch`. All of them share:

- the call `advantage(rewards_PG, scored_PG, *, lengths_PG=None, **own_settings) -> advantages_PG`;
- a completion without a score (its verifier failed) leaves its group *before* mean and standard deviation are taken,
  gets advantage 0, and must also be masked from the loss. Whatever stands in its place, nan included, is ignored;
- a group whose scored rewards are all equal, or with fewer than two of them, gives exactly 0 (`reinforce++`, which knows
  no groups: a batch): there is nothing to compare, and a rounding residue divided by its own standard deviation would be
  a full-sized gradient of noise. Rewards that differ only by rounding count as equal: see `advantages_common.EQUAL_RELATIVE`.

Several rewards a completion go through `advantages_batch.gdpo`, rewards of steps through `advantages_steps`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from verigym.trainer.advantages.batch import ADVANTAGES_OF_BATCHES, gdpo
from verigym.trainer.advantages.group import ADVANTAGES_OF_GROUPS, centred
from verigym.trainer.advantages.steps import process_supervision

__all__ = ["ADVANTAGES", "centred", "gdpo", "process_supervision"]

ADVANTAGES: dict[str, Callable[..., torch.Tensor]] = {**ADVANTAGES_OF_GROUPS, **ADVANTAGES_OF_BATCHES}
"""Every variant by name. All take `(rewards_PG, scored_PG, *, lengths_PG=None)`; other keyword arguments are their own."""
