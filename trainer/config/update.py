"""Settings of an update: loss, KL, entropy bonus, optimizer, micro-batches, and the critic of PPO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from verigym.trainer.config.frozen import Frozen
from verigym.trainer.losses.table import ON_POLICY_LOSSES

SHARED_OPTIONS = ("clip_low", "clip_high", "dual_clip", "delta")
"""Options that several losses take. They are not given in `loss_options`; each is a separate setting."""


class UpdateFields(Frozen):
    """Settings of the gradient and the optimizer step."""

    loss: str = "clipped"
    """Policy loss: a name in trainer/losses/table.py, such as clipped, reinforce, cispo, gspo, sapo, gmpo or dppo_tv."""
    clip_low: float | None = None
    """Clip range below a ratio of 1; the loss's own default when left out."""
    clip_high: float | None = None
    """Clip range above a ratio of 1, DAPO takes 0.28; the loss's own default when left out."""
    dual_clip: float | None = None
    """Where the advantage A is negative, the loss is at most dual_clip times -A; no such limit when left out."""
    delta: float | None = None
    """The option `delta` of the loss. clipped: upper bound of the ratio in the unclipped term. dppo_tv: largest change of a
    token's probability."""
    loss_options: Mapping[str, Any] = {}
    """Other keyword arguments of the loss, by name."""
    aggregation: Literal["sequence_mean", "token_mean", "fixed_length", "sequence_sum_mean"] = "token_mean"
    """How token losses become one number; see trainer/losses/aggregate.py."""
    kl_coef: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the KL to the initial model; with 0 no reference model is kept in memory."""
    reference_every: int = Field(default=0, ge=0)
    """With kl_coef: steps after which the current policy replaces the KL's reference model; 0 keeps the initial model."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """Estimator of the KL; see trainer/losses/kl.py. Take k1 only with kl_place reward, where it is unbiased. With kl_place
    loss its expected gradient is 0, and the run warns of this."""
    kl_place: Literal["loss", "reward"] = "loss"
    """loss adds each token's KL to its loss; reward subtracts a completion's summed KL from its reward, before advantages."""
    kl_unbiased: bool = False
    """Multiplies the KL in the loss by the on-policy ratio, which makes k3's gradient that of the KL (arXiv 2506.09477)."""
    correction: str | None = None
    """Corrects the loss of tokens that were sampled from another distribution than the policy's: by importance weights, of a
    kind named in trainer/losses/corrections.py, or by opsm, which drops completions. No correction when left out."""
    correction_options: Mapping[str, Any] = {}
    """Bounds of the correction, by name."""
    entropy_coef: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the entropy bonus. The entropies of the tokens are averaged in the same way as their losses."""
    truncated: Literal["score", "mask"] = "score"
    """Completions that max_new_tokens cut off: trained on with their reward, or masked from the loss."""
    updates_per_step: int = Field(default=1, ge=1)
    """Optimizer updates per step, each on its share of the step's groups."""
    epochs_per_step: int = Field(default=1, ge=1)
    """Passes over a step's completions, with updates_per_step updates each."""

    learning_rate: float = Field(default=1e-6, gt=0, le=1)
    """Peak of the schedule."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after the warm-up: constant, or falling to 0 at the last step."""
    warmup_steps: int = Field(default=10, ge=0)
    """Steps in which the learning rate rises linearly from 0."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """AdamW's decoupled weight decay."""
    adam_betas: tuple[float, float] = (0.9, 0.99)
    """AdamW's decay rates of both moments, each in [0, 1)."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Largest global norm of the gradient; larger ones are scaled down."""

    micro_batch_tokens: int = Field(default=8192, ge=1)
    """Most tokens of a forward and backward pass, padding included. A prompt that several completions share counts once, plus a
    quarter of its tokens for each of these completions."""
    shared_prefix: bool = True
    """An update runs a prompt once for all completions of its group. Models that do not support this run the prompt again with
    each completion."""
    logprob_chunk: int | None = Field(default=None, ge=1)
    """Tokens whose logits are in memory at the same time; chosen by the vocabulary's size when left out."""
    gradient_checkpointing: bool = False
    """Recomputes each layer in the backward pass instead of storing its activations; turns shared_prefix off."""

    @model_validator(mode="after")
    def _update_is_consistent(self) -> Self:
        if not all(0 <= beta < 1 for beta in self.adam_betas):
            raise ValueError(f"adam_betas are {self.adam_betas}; each must be in [0, 1)")
        if self.reference_every and self.kl_coef == 0:
            raise ValueError("reference_every is about the reference of a KL; set kl_coef above 0, or leave it out")
        if self.kl_unbiased and self.kl_place == "reward":
            raise ValueError("kl_unbiased is about the gradient of a KL in the loss; with kl_place reward leave it out")
        if self.kl_unbiased and self.kl_estimator == "k2":
            raise ValueError("kl_unbiased would bias k2, whose gradient is that of the KL already; leave it out or take k3")
        for name in SHARED_OPTIONS:
            if getattr(self, name) is not None and name in self.loss_options:
                raise ValueError(f"{name} is set by its own field (or the preset) and in loss_options too; use the field")
        if self.loss in ON_POLICY_LOSSES and self.updates_per_step * self.epochs_per_step > 1:
            raise ValueError(
                f"loss {self.loss} takes no ratio, so after the first update of a step it is wrong; set updates_per_step and "
                "epochs_per_step to 1, or take a loss with a ratio, such as clipped"
            )
        if self.correction is None and self.correction_options:
            raise ValueError("correction_options without a correction: name its kind in `correction`")
        return self


class CriticFields(Frozen):
    """Settings of the critic (PPO). They have an effect only with `advantage: gae`, which uses the critic's values."""

    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """With gae: the lambda of the estimate. 1 makes the advantage the return minus the critic's value, 0 makes it the TD error
    of one token."""
    gae_gamma: float = Field(default=1.0, ge=0, le=1)
    """With gae: discount per token."""
    whiten_advantages: bool = True
    """With gae: advantages of all tokens of a step get mean 0 and standard deviation 1."""
    critic_learning_rate: float = Field(default=1e-5, gt=0, le=1)
    """With gae: peak learning rate of the critic. Its optimizer, schedule, warm-up, weight decay and gradient clipping are the
    same as the policy's."""
    value_clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """With gae: clip of the critic's loss (PPO2). A value that has moved by more than this towards its return since the start
    of the step gets no further gradient. No clip when left out."""
