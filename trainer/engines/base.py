"""Engine interface: requests and generated completions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Thought:
    """The reasoning part of a completion that was sampled under a token budget; see `evaluation.thinking`."""

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
    """Log-probability of each token under the distribution it was drawn from. In greedy decoding, which draws nothing, under
    the distribution at temperature 1."""
    finish_reason: Literal["stop", "length"]
    loss_mask: tuple[bool, ...] | None = None
    """False for tokens that the policy did not sample, such as a tool's output between turns; their `logprobs` are 0.
    None if the policy sampled all tokens."""
    thought: Thought | None = None
    """Set if the reasoning had a budget."""
    turns: tuple[tuple[int, int], ...] = ()
    """In an episode: (start, end) of the tokens of each turn that the policy sampled."""
    policy_step: int | None = None
    """Number of updates of the policy that sampled the completion (in an episode, its oldest turn); None if not known."""

    @property
    def length(self) -> int:
        """Return the number of tokens that the policy sampled."""
        return len(self.token_ids) if self.loss_mask is None else sum(self.loss_mask)


OnFinished = Callable[[int, int, Generated], None]
"""Called with (prompt index, sample index, completion) when a completion ends. Grading can start while others are sampled."""


OnTokens = Callable[[int], None]
"""Called between tokens with the number of tokens that were sampled since the last call, as far as the engine knows it."""

_on_tokens: ContextVar[OnTokens | None] = ContextVar("on_tokens", default=None)


@contextmanager
def tokens_reported(to: OnTokens) -> Iterator[None]:
    """Return a context in which engines call `to` between tokens, in the thread that samples. It may raise to stop them.

    The functions of contexts around this one are called, too, before `to`.
    """
    outer = _on_tokens.get()

    def both(count: int) -> None:
        if outer is not None:
            outer(count)
        to(count)

    token = _on_tokens.set(both)
    try:
        yield
    finally:
        _on_tokens.reset(token)


def report_tokens(count: int) -> None:
    """Call the function of `tokens_reported`, if there is one. Engines call this between tokens."""
    to = _on_tokens.get()
    if to is not None:
        to(count)


@dataclass(frozen=True)
class Request:
    """A request to sample one completion."""

    place: tuple[int, int]
    """(prompt index, sample index) for `OnFinished`. Requests with the same prompt index may share a prompt."""
    prompt: Sequence[int]
    key: tuple[object, ...]
    """Its randomness key."""
    max_new_tokens: int
    episode: Hashable = None
    """Identifies the episode that the completion is a turn of; None for a completion of one turn."""


Arrivals = Callable[[bool], Sequence[Request]]
"""Function that the engine calls between tokens. It returns the requests that have arrived since the last call. The engine
passes True if it is sampling nothing; the function then waits for a request, and returns none only if no more will ever
arrive."""


class Engine(Protocol):
    """Interface of the engines, which sample completions from the policy. They use the weights of the last call of `sync`."""

    @property
    def positions(self) -> int | None:
        """Return the largest number of tokens of a prompt with its completion; None if the engine has no limit of its own.

        The number is known only after `sync`.
        """

    def sync(self) -> None:
        """Load the policy's weights.

        This is called once at the start, and before sampling whenever the weights may have changed.
        """

    def rest(self) -> None:
        """Release memory until the next `sync`. This is called before the policy is updated."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions of each prompt.

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
        """Release the engine's memory, processes and connections."""


class EpisodeEngine(Engine, Protocol):
    """Interface of the engines that know which requests are turns of the same episode, and so can reuse earlier computation.

    Other engines sample each turn as an independent prompt.
    """

    def play(
        self,
        requests: Sequence[Request],
        *,
        temperature: float,
        on_finished: OnFinished,
        arrivals: Arrivals | None = None,
    ) -> None:
        """Sample a completion for each of `requests`, and for requests that arrive while these are sampled.

        Args:
            requests: the completions to sample. In a request for a later turn of an episode, the prompt begins with all tokens
                of the earlier turns.
            temperature: 0 samples greedily.
            on_finished: called once for every completion with its place, from the calling thread.
            arrivals: see `Arrivals`; None if no further requests arrive.
        """

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop the data kept for `episodes`, which are over. Unknown episodes are ignored."""


class FreeEngine(EpisodeEngine, Protocol):
    """Interface of the engines that can load new weights while they sample.

    Their completions have a `policy_step`, the number of updates of the policy that sampled them.
    """

    def publish(self, step: int) -> None:
        """Begin to load the policy's present weights, and return while sampling continues.

        `step` is the number of updates so far.
        """

    def settle(self) -> None:
        """Wait until the newest weights are loaded, so that every completion from now on is sampled with them."""


def engine_metrics(engine: Engine) -> dict[str, float]:
    """Return the metrics of `engine` itself, such as those of its weight transfers; empty for most engines."""
    figures = getattr(engine, "metrics", None)
    return figures() if figures is not None else {}


def requests_of(
    prompts: Sequence[Sequence[int]], row_keys: Sequence[Sequence[tuple[object, ...]]], max_new_tokens: int
) -> list[Request]:
    """Convert arguments of `Engine.generate` into requests for `EpisodeEngine.play`, one per completion."""
    return [
        Request((p, g), prompt, key, max_new_tokens)
        for p, (prompt, keys) in enumerate(zip(prompts, row_keys, strict=True))
        for g, key in enumerate(keys)
    ]


def generate_by_play(
    engine: EpisodeEngine,
    prompts: Sequence[Sequence[int]],
    row_keys: Sequence[Sequence[tuple[object, ...]]],
    max_new_tokens: int,
    temperature: float,
    on_finished: OnFinished,
) -> list[list[Generated]]:
    """Implement `Engine.generate` with `engine.play`: return the completions of each prompt, in the order of its keys."""
    done: dict[tuple[int, int], Generated] = {}

    def finished(p: int, g: int, generated: Generated) -> None:
        done[p, g] = generated
        on_finished(p, g, generated)

    engine.play(requests_of(prompts, row_keys, max_new_tokens), temperature=temperature, on_finished=finished)
    return [[done[p, g] for g in range(len(keys))] for p, keys in enumerate(row_keys)]
