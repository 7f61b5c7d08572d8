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
    """Whether the row counts in sums and denominators. False for unscored, canary and masked truncated completions."""
    sampler_logprobs: tuple[float, ...] | None = None
    """Log-probability of each token when it was sampled."""
    old_logprobs: tuple[float, ...] | None = None
    """Log-probability of each token before the first update on this batch; None if there is only one update. For an off-policy
    row, they may be set to the sampler's log-probabilities in advance; these are then not computed again."""
    token_advantages: tuple[float, ...] | None = None
    """One advantage for each token, used instead of `advantage`: from rewards of steps or turns, or from a critic."""
    off_policy: bool = False
    """Whether the policy of an earlier step sampled the completion (a leftover or a replayed group), so that `sampler_logprobs`
    differ from the current policy's."""
    loss_mask: tuple[bool, ...] | None = None
    """False for tokens that the policy did not sample, which count in no loss or mean; see `Generated.loss_mask`."""
    values: tuple[float, ...] = ()
    """With a critic: the critic's value of the state before each token, at the start of the step."""
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
