"""What the loop asks of an engine, and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Thought:
    """What became of a completion's thought under a budget; see `evaluation.thinking`."""

    tokens: int
    """Sampled before the close."""
    forced: bool
    """Whether the close was put in, because the budget was used up."""
    waits: int
    """How often the thought was taken up again."""


@dataclass(frozen=True)
class Generated:
    """One sampled completion, its end-of-sequence token included where it was sampled."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Log-probability of each token under the distribution it was drawn from; greedy decoding reports temperature 1."""
    finish_reason: Literal["stop", "length"]
    loss_mask: tuple[bool, ...] | None = None
    """False for the tokens that the policy did not sample, such as a tool's output between its turns, whose `logprobs` are 0;
    None where it sampled all."""
    thought: Thought | None = None
    """Where there was a budget for it."""

    @property
    def length(self) -> int:
        """How many tokens the policy sampled."""
        return len(self.token_ids) if self.loss_mask is None else sum(self.loss_mask)


OnFinished = Callable[[int, int, Generated], None]
"""Takes (prompt index, sample index, completion) as soon as a completion ends, so that grading can start while others go on."""


class Engine(Protocol):
    """Samples completions from the policy as it was when `sync` was last called."""

    def sync(self) -> None:
        """Take over the policy's weights; called before sampling whenever they may have changed, and once at the start."""

    def rest(self) -> None:
        """Give back what memory it can until the next `sync`; called before the policy is updated."""

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
            row_keys: for each prompt, one randomness key a sample.
            max_new_tokens: most tokens a completion.
            temperature: 0 takes the most likely token.
            on_finished: see `OnFinished`; called once for every completion, from the calling thread.

        Returns:
            For each prompt its completions, in the order of its keys.
        """

    def close(self) -> None:
        """Give back what the engine holds: memory, processes, connections."""
