"""The table of policy losses: the function that each name stands for, and properties with which settings are checked.

A new loss is a function in another module of this package and an entry here. Checks of settings, error messages and tests
follow from the entry's attributes. Torch is imported only when a loss's function is asked for, so settings can be checked
without it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verigym.trainer.losses.common import LossAndMetrics


@dataclass(frozen=True)
class PolicyLoss:
    """An entry of the table `LOSSES`."""

    location: str
    """`module:function`, in this package."""
    whole_completions: bool = False
    """Whether the loss of a token is that of its whole completion. Only `sequence_mean` then counts each completion once."""
    on_policy: bool = False
    """True if the loss contains no probability ratio, and so is right only for tokens that the current policy sampled."""

    @property
    def function(self) -> Callable[..., LossAndMetrics]:
        """Return the function `(logp_BT, old_logp_BT, advantages, *, mask_BT=None, **options)`; this imports its module."""
        function: Callable[..., LossAndMetrics] = pkgutil.resolve_name(f"{__package__}.{self.location}")
        return function


LOSSES: dict[str, PolicyLoss] = {
    "clipped": PolicyLoss("token_level:clipped"),
    "cispo": PolicyLoss("token_level:cispo"),
    "sapo": PolicyLoss("token_level:sapo"),
    "dppo_tv": PolicyLoss("token_level:dppo_tv"),
    "reinforce": PolicyLoss("token_level:reinforce", on_policy=True),
    "gspo": PolicyLoss("sequence_level:gspo", whole_completions=True),
    "gmpo": PolicyLoss("sequence_level:gmpo", whole_completions=True),
    "sequence_reinforce": PolicyLoss("sequence_level:sequence_reinforce", whole_completions=True, on_policy=True),
}
"""Every policy loss by the name that the setting `loss` takes."""

ON_POLICY_LOSSES = sorted(name for name, loss in LOSSES.items() if loss.on_policy)
"""Losses that are right only for tokens of the current policy."""
