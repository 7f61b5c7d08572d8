"""Episodes in a rollout, completions of several turns: their tokens, limits and sessions.

`turn_order` decides which turns are sampled together. Replies to a turn are appended, as tokens, to the tokens that were
sampled; sampled tokens are never tokenised again (`models.bridge`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Prompt, ScoreError, Turn, canonical_json
from verigym.envs.contract.session import TOOLS
from verigym.envs.contract.transcript import Transcript
from verigym.envs.sessions import Answer, Episode, SessionLimit, Sessions
from verigym.trainer.config.episodes import TurnOrder
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.engines.base import Generated, Request
from verigym.trainer.models.bridge import Bridge
from verigym.trainer.models.codec import Codec
from verigym.trainer.tasks.mixture import Source


@dataclass(frozen=True)
class EpisodeLimits:
    """The limits of one episode."""

    max_turns: int
    """The assistant's turns."""
    max_new_tokens: int
    """Tokens that are sampled in all turns together."""
    max_turn_tokens: int | None = None
    """Most tokens that are sampled in one turn; None for no separate limit per turn."""
    positions: int | None = None
    """Most tokens of prompt and episode together, including the replies that the model reads; None for no limit."""


@dataclass
class EpisodeRow:
    """An episode while it is played."""

    place: tuple[int, int]
    """Prompt and sample."""
    key: tuple[object, ...]
    prompt_ids: Sequence[int]
    tools: Sequence[Mapping[str, Any]]
    transcript: Transcript
    episode: Episode
    limits: EpisodeLimits
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    written: list[bool] = field(default_factory=list)
    turns: list[tuple[int, int]] = field(default_factory=list)
    """Where each turn's sampled tokens begin and end."""
    policy_step: int | None = None
    """See `Generated`."""
    reason: FinishReason | None = None
    """Why it is over; None while it goes on."""
    outcome: Mapping[str, Any] | None = None
    failure: ScoreError | None = None
    waiting: Future[Answer] | Future[Mapping[str, Any]] | None = None
    asked: float = 0.0
    replied: list[float] = field(default_factory=list)
    """Seconds that each reply took."""

    @property
    def room(self) -> int:
        """Return the most tokens of the next turn."""
        limits = self.limits
        room = limits.max_new_tokens - sum(self.written)
        if limits.max_turn_tokens is not None:
            room = min(room, limits.max_turn_tokens)
        if limits.positions is not None:
            room = min(room, limits.positions - len(self.prompt_ids) - len(self.tokens))
        return room

    @property
    def turn_key(self) -> tuple[object, ...]:
        """Return the randomness key of the next turn: for the first turn the row's own key, later with the turn's number."""
        return (*self.key, "turn", len(self.turns)) if self.turns else self.key

    @property
    def request(self) -> Request:
        """Return the request for the next turn."""
        return Request(self.place, (*self.prompt_ids, *self.tokens), self.turn_key, self.room, self.key)

    def generated(self) -> Generated:
        """Return the tokens of the episode. Tokens that the policy did not sample have no log-probability and are masked."""
        ended = "length" if self.reason in ("length", "turns", "context") else "stop"
        return Generated(
            tuple(self.tokens),
            tuple(self.logprobs),
            ended,  # type: ignore[arg-type]
            loss_mask=tuple(self.written) if not all(self.written) else None,
            turns=tuple(self.turns),
            policy_step=self.policy_step,
        )

    def completion(self) -> Completion:
        """Return the episode as the completion that the environment judges."""
        assert self.reason is not None
        own = [token for token, written in zip(self.tokens, self.written, strict=True) if written]
        return self.transcript.completion(self.reason, self.outcome, self.failure, own)


class Episodes:
    """Plays the episodes of the sources whose environments open sessions."""

    def __init__(
        self, codec: Codec, sessions: Mapping[str, Sessions], limits: EpisodeLimits, order: TurnOrder = "lockstep"
    ) -> None:
        """Prepare to play episodes. No episode is opened.

        Args:
            codec: the policy's tokenizer.
            sessions: sessions of each source, by label.
            limits: limits of each episode.
            order: see `turn_order`.
        """
        self.codec, self.sessions, self.limits, self.order = codec, sessions, limits, order
        self.bridge = Bridge(codec)
        self._checked: set[str] = set()

    def begin(
        self,
        place: tuple[int, int],
        source: Source,
        prompt: Prompt,
        ids: Sequence[int],
        key: tuple[object, ...],
        positions: int | None,
    ) -> EpisodeRow:
        """Open an episode of a task, and return its row.

        Args:
            place: number of the prompt, and number of the sample.
            source: source of the task.
            prompt: the task.
            ids: tokens of the prompt.
            key: randomness key of the row.
            positions: most tokens, including the prompt, that the engine can process; None for no limit.

        Raises:
            UsageError: the chat template cannot continue after a turn, or the prompt leaves no room.
        """
        known = [one for one in (self.limits.positions, positions) if one is not None]
        limits = replace(self.limits, positions=min(known, default=None))
        if limits.positions is not None and len(ids) >= limits.positions:
            raise UsageError(
                f"source {source.label!r}: a prompt of {len(ids)} tokens leaves no room for an episode within "
                f"{limits.positions} positions; lower max_prompt_tokens or raise max_context_tokens"
            )
        tools: Any = prompt.metadata.get(TOOLS) or ()
        if (shown := canonical_json(tools)) not in self._checked:
            self.bridge.check(tools)
            self._checked.add(shown)
        episode = self.sessions[source.label].open(prompt, "/".join(map(str, key)))
        return EpisodeRow(place, key, ids, tools, Transcript(prompt), episode, limits)

    def take(self, row: EpisodeRow, piece: Generated) -> None:
        """Add the tokens in `piece`, which the engine has sampled, to the model's present turn in the episode `row`.

        If the turn is now complete, it is sent to the session.
        """
        most, start = row.room, len(row.tokens)
        row.tokens += piece.token_ids[:most]
        row.logprobs += piece.logprobs[:most]
        row.written += [True] * len(piece.token_ids[:most])
        row.turns.append((start, len(row.tokens)))
        if row.policy_step is None or piece.policy_step is None:
            row.policy_step = piece.policy_step
        else:
            row.policy_step = min(row.policy_step, piece.policy_step)
        text = self.codec.completion([*row.prompt_ids, *row.tokens[:start]], row.tokens[start:])
        row.transcript.add(Turn(role="assistant", text=text))
        row.asked = time.perf_counter()
        if row.tokens[-1] in self.codec.eos_ids:
            row.waiting = row.episode.turn(text)
        else:  # half a turn is not answered
            full = row.limits.positions is not None and len(row.prompt_ids) + len(row.tokens) >= row.limits.positions
            self._end(row, "context" if full else "length")

    def settle(self, row: EpisodeRow) -> bool:
        """Add the session's replies to the episode `row`, and return False if the episode is over.

        The future `row.waiting`, which gives the session's answer to the last turn, must be done. If the episode has reached a
        limit, the session is asked to end. The result is then still True, and `row.waiting` is the future of that end: call
        this method again when it is done.
        """
        waiting, row.waiting = row.waiting, None
        assert waiting is not None
        try:
            answer = waiting.result()
        except EnvironmentFailure as error:
            row.reason, row.failure = "abort", error.score().error
            return False
        except SessionLimit as blamed:
            row.reason, row.outcome = "limit", {"limit": blamed.why}
            return False
        if not isinstance(answer, Answer):
            row.outcome = answer
            return False
        row.replied.append(time.perf_counter() - row.asked)
        row.transcript.replace_last(answer.turn)
        row.transcript.answer(answer.reply)
        if answer.reply.done:
            row.reason, row.outcome = "stop", answer.outcome
            return False
        start, end = row.turns[-1]
        try:
            read = self.bridge.after(row.tokens[start:end], answer.reply.messages, row.tools)
        except EnvironmentFailure as error:  # of this episode, not of the rollout
            row.reason, row.failure = "abort", error.score().error
            row.episode.end()
            return False
        if len(row.turns) == row.limits.max_turns:
            self._end(row, "turns")
        elif sum(row.written) >= row.limits.max_new_tokens:
            self._end(row, "length")
        elif row.limits.positions is not None and len(row.prompt_ids) + len(row.tokens) + len(read) >= row.limits.positions:
            self._end(row, "context")
        else:
            row.tokens += read
            row.logprobs += [0.0] * len(read)
            row.written += [False] * len(read)
        return True

    def _end(self, row: EpisodeRow, reason: FinishReason) -> None:
        row.reason = reason
        row.waiting = row.episode.end()


def with_room(config: TrainConfig, sessions: Mapping[str, Sessions], positions: int | None) -> TrainConfig:
    """Return `config`; if a run with vLLM has episodes and leaves out `vllm_max_model_len`, this is set to `positions`."""
    if not sessions or config.engine != "vllm" or config.vllm_max_model_len is not None or positions is None:
        return config
    return config.model_copy(update={"vllm_max_model_len": positions})


def build_episodes(
    codec: Codec, sessions: Mapping[str, Sessions] | None, config: Any, positions: int | None
) -> Episodes | None:
    """Return the `Episodes` object that plays the episodes of a run or an evaluation; None if no source has episodes.

    Args:
        codec: the policy's tokenizer.
        sessions: sessions of each source, by label.
        config: settings with `EpisodeFields` and `max_new_tokens`.
        positions: most tokens of prompt and episode together; None for no limit.
    """
    if not sessions:
        return None
    limits = EpisodeLimits(config.max_turns, config.max_new_tokens, config.max_turn_tokens, positions)
    return Episodes(codec, sessions, limits, config.episode_order)
