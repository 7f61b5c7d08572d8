"""The settings of a critic: PPO, with advantages from a model of values instead of from a group."""

from __future__ import annotations

from pydantic import Field

from verigym.trainer.config.frozen import Frozen


class CriticFields(Frozen):
    """All of them matter only with `advantage: gae`."""

    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """With gae: 1 takes a completion's return minus the critic's value, 0 the value's error of one token."""
    gae_gamma: float = Field(default=1.0, ge=0, le=1)
    """With gae: discount a token."""
    whiten_advantages: bool = True
    """With gae: advantages of all tokens of a step get mean 0 and standard deviation 1."""
    critic_learning_rate: float = Field(default=1e-5, gt=0, le=1)
    """With gae: peak of the critic's own rate; kind of optimizer, schedule, warm-up, decay and clipping are the policy's."""
    value_clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """With gae: a value that has moved this far from where the step found it is not pushed on (PPO2); none when left out."""
