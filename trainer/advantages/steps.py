"""Advantages of tokens from rewards of steps: process supervision (DeepSeekMath, arXiv 2402.03300, section 4.1.3).

Shapes: G samples of one prompt, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from verigym.trainer.advantages.group import grpo


def process_supervision(
    step_rewards: Sequence[Sequence[float] | None],
    step_ends: Sequence[Sequence[int]],
    lengths: Sequence[int],
    *,
    ddof: int = 1,
    eps: float = 0.0,
) -> torch.Tensor:
    """Normalise the step rewards of a group, and give each token the sum over the steps that end after it.

    Each step reward becomes `r~ = (r - mean) / (std + eps)`, with mean and std over every step of every completion. The
    advantage of token t is the sum of r~ over the steps with end > t. A token after the last step gets 0; if all steps have
    equal rewards, every token gets 0. Because the advantage is a sum, completions with many steps get larger advantages.
    arXiv 2504.15275 reports that training can collapse because of this, and uses the minimum over the steps as one reward.

    Args:
        step_rewards: for each completion, a list with one finite reward per step; None for an unscored completion, which
            is left out of the mean and gets 0.
        step_ends: for each completion, the number of tokens from its start to the end of each step. The numbers must rise from
            step to step; the first is at least 1, the last at most the completion's length. Ignored for an unscored completion.
        lengths: length of each completion, in tokens.
        ddof: 0 divides the sum of squares by n (population), 1 by n - 1 (sample).
        eps: added to the standard deviation, in the unit of the rewards; at least 0.

    Returns:
        Advantages `[G, T]` in float64, without a unit, 0 beyond a completion's length.

    Raises:
        ValueError: the lists do not fit together, a reward is not finite, or `ddof` or `eps` is out of range.
    """
    if not len(step_rewards) == len(step_ends) == len(lengths):
        raise ValueError(
            f"step_rewards, step_ends and lengths: expected one entry a completion each, "
            f"got {len(step_rewards)}, {len(step_ends)} and {len(lengths)}"
        )
    flat: list[float] = []
    for number, (rewards, ends, length) in enumerate(zip(step_rewards, step_ends, lengths, strict=True)):
        if rewards is None:
            continue
        if len(rewards) != len(ends):
            raise ValueError(f"step_ends[{number}]: expected {len(rewards)} ends, one a step reward, got {len(ends)}")
        if not all(before < end for before, end in zip([0, *ends], [*ends, length + 1], strict=True)):
            raise ValueError(
                f"step_ends[{number}]: expected rising ends from 1 to the length of {length} tokens, got {list(ends)}"
            )
        flat.extend(rewards)
    steps_1N = torch.tensor([flat], dtype=torch.float64)
    normal = iter(grpo(steps_1N, torch.ones_like(steps_1N, dtype=torch.bool), ddof=ddof, eps=eps)[0])
    advantages_GT = torch.zeros(len(lengths), max(lengths, default=0), dtype=torch.float64)
    for row_T, rewards, ends in zip(advantages_GT, step_rewards, step_ends, strict=True):
        for end, _ in zip(ends, rewards or (), strict=False):
            row_T[:end] += next(normal)
    return advantages_GT
