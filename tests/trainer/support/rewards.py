"""Rewards of groups for the tests of advantages. Shapes: P prompts, G samples a prompt."""

from __future__ import annotations

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st

from verigym.trainer.advantages.table import ADVANTAGES

NAN = math.nan
REWARD_ADVANTAGES = sorted(name for name, entry in ADVANTAGES.items() if entry.takes == "reward")
"""Advantages of one reward a completion."""
Slots = list[list[tuple[float, bool]]]
"""For each prompt, for each sample: the reward and whether it is scored."""

repeatable = settings(max_examples=25, deadline=None, derandomize=True)
any_reward = st.one_of(st.sampled_from([0.0, 0.1, 0.3, 1.0, -1.0]), st.floats(-1e6, 1e6, width=32))
masked = st.sampled_from([NAN, math.inf, -math.inf, 0.0, 1e30])
# Steps of 1/20 only: two rewards of 1e6 that differ in the last digit have no digits left to compare after centring.
plain_reward = st.integers(-40, 40).map(lambda n: n / 20)


def batches(reward: st.SearchStrategy[float]) -> st.SearchStrategy[Slots]:
    """Draw a batch of groups with unscored places."""
    slot = st.one_of(reward.map(lambda r: (r, True)), masked.map(lambda r: (r, False)))
    return st.integers(1, 6).flatmap(lambda g: st.lists(st.lists(slot, min_size=g, max_size=g), min_size=1, max_size=4))


def tensors(rows: Slots, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rewards_PG, scored_PG)."""
    return (
        torch.tensor([[r for r, _ in row] for row in rows], dtype=dtype),
        torch.tensor([[s for _, s in row] for row in rows]),
    )


def all_scored(*rows: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rewards_PG, scored_PG) with every completion scored."""
    rewards_PG = torch.tensor(rows, dtype=torch.float64)
    return rewards_PG, torch.ones_like(rewards_PG, dtype=torch.bool)


def lengths_like(rewards_PG: torch.Tensor) -> torch.Tensor:
    """Return lengths in tokens that differ from sample to sample."""
    return (torch.arange(rewards_PG.numel()).reshape(rewards_PG.shape) * 7) % 11 + 1


def advantage(
    name: str, rewards_PG: torch.Tensor, scored_PG: torch.Tensor, lengths_PG: torch.Tensor | None = None
) -> torch.Tensor:
    """Call a variant with lengths, and for `maxrl` with rewards that are not below 0."""
    if lengths_PG is None:
        lengths_PG = lengths_like(rewards_PG)
    if name == "maxrl":
        rewards_PG = rewards_PG.abs()
    return ADVANTAGES[name].function(rewards_PG, scored_PG, lengths_PG=lengths_PG)
