"""Engine interface: requests and generated completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Thought:
    """A completion's reasoning under a token budget; see `evaluation.thinking`."""

    tokens: int
    """Tokens sampled before the closing tag."""
    forced: bool
    """Whether the closing tag was inserted because the budget was used up."""
    waits: int
    """How often the reasoning was made to continue."""


@dataclass(frozen=True)
class Generated:
    """One sampled completion, including its end-of-sequence token if that was sampled."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Log-probability of each token under the distribution it was drawn from; greedy decoding reports temperature 1."""
    finish_reason: Literal["stop", "length"]
    loss_mask: tuple[bool, ...] | None = None
    """False for tokens that the policy did not sample, such as a tool's output between turns; their `logprobs` are 0.
    None if it sampled all."""
    thought: Thought | None = None
    """Set if the reasoning had a budget."""
    turns: tuple[tuple[int, int], ...] = ()
    """In an episode: where the tokens of each turn that the policy sampled begin and end."""

    @property
    def length(self) -> int:
        """Number of tokens that the policy sampled."""
        return len(self.token_ids) if self.loss_mask is None else sum(self.loss_mask)


OnFinished = Callable[[int, int, Generated], None]
"""Called with (prompt index, sample index, completion) when a completion ends: grading starts while others are sampled."""


class Engine(Protocol):
    """Samples completions from the policy as it was at the last call of `sync`."""

    @property
    def positions(self) -> int | None:
        """Most tokens of a prompt with its completion; None where only the model's own positions count. Known after `sync`."""

    def sync(self) -> None:
        """Load the policy's weights. Called once at the start, and before sampling whenever they may have changed."""

    def rest(self) -> None:
        """Release memory until the next `sync`. Called before the policy is updated."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions.

        Args:
            prompts: P token sequences of any lengths.
            row_keys: for each prompt, one randomness key per sample.
            max_new_tokens: most tokens of a completion.
            temperature: 0 samples greedily.
            on_finished: called once for every completion, from the calling thread; see `OnFinished`.

        Returns:
            For each prompt its completions, in the order of its keys.
        """

    def close(self) -> None:
        """Release memory, processes and connections."""
