"""The table of advantages: the function of each name, and the properties by which a run's settings are checked.

To add an advantage, write a function in a module beside this one and add an entry here. Checks of settings, error messages and
tests use the entry's attributes. torch is imported only when a function is requested, so configurations are checked without it.
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
    """What the function takes, which determines how it is called.

    reward: the total rewards. Called as `function(rewards_PG, scored_PG, *, lengths_PG=None, **options)`.
    components: the score's components that the setting `reward_weights` names, as R separate rewards. Called as
    `function(rewards_PGR, scored_PG, weights_R, **options)`.
    critic: called like `reward`. The function returns rewards, from which the learner's critic computes advantages of tokens.
    turns: called like `reward`. The reward of an episode includes the rewards of its turns. The function returns the advantage
    of the first turn; the rewards of earlier turns are subtracted from it for each later turn.
    """
    needs_group: bool = True
    """Whether the advantage compares the completions of one prompt. If so, one completion per prompt would give only zeros."""
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
