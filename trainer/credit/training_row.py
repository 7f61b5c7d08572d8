"""`TrainingRow`: a completion with the advantages and the mask of its tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingRow:
    """One completion in the form that the update needs."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    advantage: float
    trained: bool
    """False leaves the row out of every sum and denominator: it is unscored, of a canary, or truncated and masked."""
    sampler_logprobs: tuple[float, ...] | None = None
    """Log-probability of each token when it was sampled."""
    old_logprobs: tuple[float, ...] | None = None
    """Log-probability of each token before the first update on this batch; None where there is only one update. An off-policy
    row may have its sampler's here, and keeps them."""
    token_advantages: tuple[float, ...] | None = None
    """One for each token, in place of `advantage`: from rewards of steps, or from a critic."""
    off_policy: bool = False
    """Whether the policy of an earlier step sampled it (a leftover, a replay), so that its `sampler_logprobs` differ from the
    current policy's."""
    loss_mask: tuple[bool, ...] | None = None
    """False for tokens that the policy did not sample, see `Generated.loss_mask`: in no loss, mean or denominator."""
    values: tuple[float, ...] = ()
    """With a critic: its value of the state before each token, at the start of the step."""
    returns: tuple[float, ...] = ()
    """With a critic: the targets of `values`."""

    @property
    def advantages(self) -> tuple[float, ...]:
        """Return the advantage of each token."""
        return self.token_advantages or (self.advantage,) * len(self.token_ids)

    @property
    def trained_mask(self) -> tuple[bool, ...]:
        """Return, for each token, True if it is trained on."""
        return tuple(self.trained and sampled for sampled in self.loss_mask or (True,) * len(self.token_ids))
