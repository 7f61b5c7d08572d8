"""The table of advantages: which function each name stands for, and what settings must know about it.

A new advantage is a function in a module beside this one and an entry here. Checks of settings, error messages and tests follow
from the entry's attributes. No torch is imported until a function is taken, so that configurations are checked without it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Advantage:
    """An entry of the table `ADVANTAGES`."""

    location: str
    """`module:function`, in this package."""
    takes: Literal["reward", "components", "critic", "turns"] = "reward"
    """reward: `function(rewards_PG, scored_PG, *, lengths_PG=None, **options)`. components: `function(rewards_PGR, scored_PG,
    weights_R, **options)`, for the components in `reward_weights`. critic: called as for reward, but returns rewards, of which
    the learner's critic makes advantages of tokens. turns: called as for reward, with the rewards of an episode's turns added,
    of which each turn keeps those from it on."""
    needs_group: bool = True
    """Whether it compares the completions of one prompt, so that one completion a prompt would give only zeros."""
    negative_rewards: bool = True
    """Whether rewards may be below 0."""

    @property
    def function(self) -> Callable[..., torch.Tensor]:
        """Return the advantage function; this imports its module."""
        function: Callable[..., torch.Tensor] = pkgutil.resolve_name(f"{__package__}.{self.location}")
        return function


ADVANTAGES: dict[str, Advantage] = {
    "grpo": Advantage("group:grpo"),
    "centred": Advantage("group:centred"),
    "rloo": Advantage("group:rloo"),
    "maxrl": Advantage("group:maxrl", negative_rewards=False),
    "passk": Advantage("group:passk"),
    "opo": Advantage("group:opo"),
    "batch_std": Advantage("batch:batch_std"),
    "reinforce++": Advantage("batch:reinforce_pp", needs_group=False),
    "reinforce++_baseline": Advantage("batch:reinforce_pp_baseline"),
    "gdpo": Advantage("batch:gdpo", takes="components"),
    "turn_returns": Advantage("turns:turn_returns", takes="turns"),
    "gae": Advantage("gae:whole_reward", takes="critic", needs_group=False),
}
"""Every advantage by the name that the setting `advantage` takes."""

GROUPLESS = sorted(name for name, advantage in ADVANTAGES.items() if not advantage.needs_group)
"""Advantages for which one completion a prompt is enough."""
