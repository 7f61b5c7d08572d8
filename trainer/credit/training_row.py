"""One completion to train on: its tokens, their advantages, and which of them count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingRow:
    """One completion to train on."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    advantage: float
    trained: bool
    """False for an unscored completion, or a truncated one that is masked: out of every sum and every denominator."""
    sampler_logprobs: tuple[float, ...] | None = None
    """Log-probability of each token when it was sampled."""
    old_logprobs: tuple[float, ...] | None = None
    """The policy's before the first update on this batch; None where the first update is the only one. A row that an earlier
    policy wrote (a leftover, a replay) may come with its sampler's here, and keeps them."""
    token_advantages: tuple[float, ...] | None = None
    """One a token, instead of the completion's `advantage`, where its steps were judged one by one."""
    off_policy: bool = False
    """Whether an earlier policy wrote it, so that `sampler_logprobs` differ from this one's for a good reason."""
    loss_mask: tuple[bool, ...] | None = None
    """False for tokens that are only read, see `Generated.loss_mask`: in no loss, no mean and no denominator."""
    values: tuple[float, ...] = ()
    """With a critic: what it expected before each token when the step began."""
    returns: tuple[float, ...] = ()
    """With a critic: what it should have expected."""

    @property
    def advantages(self) -> tuple[float, ...]:
        """The advantage of each token."""
        return self.token_advantages or (self.advantage,) * len(self.token_ids)

    @property
    def trained_mask(self) -> tuple[bool, ...]:
        """Which tokens are trained on."""
        return tuple(self.trained and own for own in self.loss_mask or (True,) * len(self.token_ids))
