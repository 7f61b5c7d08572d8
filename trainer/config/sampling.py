"""Settings of sampling: batch and group size, lengths, advantages, dynamic sampling, curriculum, replay, canaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from verigym.trainer.advantages.table import GROUPLESS
from verigym.trainer.config.frozen import Frozen


class SamplingFields(Frozen):
    """Settings of rollouts and advantages."""

    prompts_per_step: int = Field(default=16, ge=1)
    """Prompts per step, sampled from the mixture."""
    group_size: int = Field(default=8, ge=1)
    """Completions per prompt, which form a group. Most advantages compare the completions of a group, so they need at least 2;
    for gae and reinforce++ 1 is enough."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Longer prompts are skipped and counted."""
    max_left_out: float = Field(default=0.01, ge=0, le=1)
    """Largest share of a source's prompts that may be longer than max_prompt_tokens; more is an error."""
    max_new_tokens: int = Field(default=512, ge=1)
    """Most tokens of a completion."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Sampling temperature in training."""
    broken_grader_share: float = Field(default=0.2, gt=0, le=1)
    """A completion on which the judge raises an error gets the lowest reward. But if that happens to more than this share of a
    source's last 200 completions, the grader counts as broken, and such completions are unscored instead."""
    overlap: Literal["none", "one_step", "free"] = "none"
    """none: sampling and updates take turns. one_step: while the policy is updated, the next step's completions are sampled
    with the weights from before the update. free: servers sample without a pause, and load new weights while they sample."""
    max_staleness: int = Field(default=2, ge=1)
    """With overlap free: most updates between the sampling of a group and its training; older groups are dropped."""
    generation_rows: int = Field(default=512, ge=1)
    """Most completions decoded at the same time; bounds the memory of the KV cache."""

    advantage: str = "grpo"
    """How rewards become advantages: a name in trainer/advantages/table.py; gae trains a critic."""
    advantage_options: Mapping[str, Any] = {}
    """Keyword arguments of the advantage, by name, such as ddof and eps of grpo."""
    reward_weights: Mapping[str, float] = {}
    """With gdpo: the score's components that count as separate rewards, and the weight of each."""
    step_rewards: bool = False
    """Where a verdict scores the steps of a completion, each step's tokens get their own advantage (DeepSeekMath 4.1.3)."""
    overlong_cache: int = Field(default=0, ge=0)
    """Number of tokens before max_new_tokens over which a penalty on the reward grows from 0 to 1 (DAPO's soft punishment); 0
    for no penalty."""
    truncated_reward: float | None = Field(default=None, allow_inf_nan=False)
    """Reward that a completion gets if max_new_tokens cut it off, instead of the reward in its verdict (Tulu 3). When left out,
    it keeps the reward in its verdict."""

    dynamic_sampling: bool = False
    """Groups without a signal, which means without a gradient, are left out. Prompts are drawn until prompts_per_step groups
    have a signal (DAPO)."""
    max_oversampling: float = Field(default=3.0, ge=1, le=100)
    """With dynamic_sampling: limit on the prompts drawn per step. From each source, at most this many times its share of
    prompts_per_step are drawn. If too few of their groups have a signal, the step trains on fewer groups."""
    curriculum: bool = False
    """Tasks are sorted into easy, normal and hard by their running pass rate; hard_share and easy_share say how often hard and
    easy tasks are drawn, and the rest are normal ones."""
    hard_share: float = Field(default=0.25, ge=0, le=1)
    """With curriculum: share of a source's prompts that are drawn from its hard tasks."""
    easy_share: float = Field(default=0.05, ge=0, le=1)
    """With curriculum: share of a source's prompts that are drawn from its easy tasks."""
    hard_below: float = Field(default=0.25, ge=0, le=1)
    """With curriculum: a task with a pass rate of at most this is hard."""
    easy_above: float = Field(default=0.75, ge=0, le=1)
    """With curriculum: a task with a pass rate of at least this is easy."""
    replay_share: float = Field(default=0.0, ge=0, le=0.5)
    """Largest share of a step's groups that are rare successes of earlier steps, trained on once more; 0 for none."""
    replay_size: int = Field(default=64, ge=1)
    """With replay_share: largest number of groups kept for replay; the oldest are dropped first."""
    replay_below: float = Field(default=0.25, gt=0, lt=1)
    """With replay_share: a group is a rare success with a pass rate above 0 and at most this."""
    replay_max_age: int = Field(default=16, ge=1)
    """With replay_share: number of steps after which a group kept for replay is dropped as too old."""

    canary_share: float = Field(default=0.02, ge=0, le=0.5)
    """Canaries are tasks that no answer solves; some environments have them. For each prompt of a step, a canary is added to
    the step with this probability."""

    @model_validator(mode="after")
    def _sampling_is_consistent(self) -> Self:
        if self.group_size == 1 and self.advantage not in GROUPLESS:
            raise ValueError(
                f"group_size is 1, but {self.advantage} compares the completions of a group; set it to 2 or more, or take "
                f"advantage {' or '.join(GROUPLESS)}"
            )
        if self.overlong_cache > self.max_new_tokens:
            raise ValueError(f"overlong_cache is {self.overlong_cache}, more than max_new_tokens ({self.max_new_tokens})")
        if self.step_rewards and self.overlong_cache:
            raise ValueError(
                "overlong_cache changes a completion's reward, which step_rewards does not look at; set one of them"
            )
        if self.truncated_reward is not None and (self.step_rewards or self.overlong_cache or self.reward_weights):
            raise ValueError(
                "truncated_reward replaces the one reward of a completion, which step_rewards and gdpo do not look at and "
                "overlong_cache prices already; set one of them"
            )
        if self.replay_share > 0 and int(self.replay_share * self.prompts_per_step) < 1:
            raise ValueError(
                f"replay_share {self.replay_share} of {self.prompts_per_step} prompts_per_step is less than one group, so "
                "nothing is replayed; raise one of them, or set replay_share to 0"
            )
        if self.replay_share > 0 and self.replay_below < 1 / self.group_size:
            raise ValueError(
                f"replay_below is {self.replay_below}, but one success among {self.group_size} (group_size) is a pass rate of "
                f"{1 / self.group_size:.3g}, so no group is kept; raise one of them"
            )
        if self.hard_share + self.easy_share > 1:
            raise ValueError("hard_share and easy_share add up to more than 1; what they leave is for normal tasks")
        if self.hard_below >= self.easy_above:
            raise ValueError("hard_below must be less than easy_above: a task is in one pool")
        if (self.advantage == "gdpo") is not bool(self.reward_weights):
            raise ValueError("advantage gdpo and reward_weights go together: name the components and their weights")
        return self
