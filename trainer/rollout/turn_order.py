"""Decides which turns of a rollout's episodes are sampled together. There are two orders.

- `lockstep`: each round samples the next turn of every episode that is not over, then waits for all replies. Which turns are
  sampled together does not depend on wall time, so a resumed run computes the same as an uninterrupted one. Each round is an
  ordinary call of the engine with longer prompts, so every engine can be used.
- `free`: an episode goes on as soon as its own reply has come, while turns of other episodes are being sampled. Which turns
  share a batch then depends on wall time, and so do the last bits of their log-probabilities.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from verigym.trainer.engines.base import EpisodeEngine, OnFinished, Request
from verigym.trainer.rollout.episodes import EpisodeRow, Episodes
from verigym.trainer.stopwatch import Stopwatch

POLL_S = 0.5
"""Most seconds between two checks whether the rollout is to stop."""


def settle_all(
    episodes: Episodes, rows: Sequence[EpisodeRow], ended: Callable[[EpisodeRow], None], poll: Callable[[], None]
) -> list[EpisodeRow]:
    """Wait for the replies of the sessions of `rows`, and return, in order, the rows whose episode goes on.

    Args:
        episodes: plays the episodes.
        rows: rows that each wait for their session.
        ended: called with each row whose episode is over, as soon as this is known.
        poll: called at least twice per second, and may raise.
    """
    waiting = list(rows)
    while waiting:
        poll()
        futures: list[Future[Any]] = [row.waiting for row in waiting if row.waiting is not None]
        wait(futures, timeout=POLL_S, return_when=FIRST_COMPLETED)
        rest = []
        for row in waiting:
            if row.waiting is not None and not row.waiting.done():
                rest.append(row)
            elif not episodes.settle(row):
                ended(row)
            elif row.waiting is not None:  # its end is on the way
                rest.append(row)
        waiting = rest
    return [row for row in rows if row.reason is None]


class FreeReplies:
    """Feeds `EpisodeEngine.play` with requests: an episode's next turn is requested as soon as its replies have come.

    No episode waits for the replies of another episode.
    """

    def __init__(
        self, episodes: Episodes, ended: Callable[[EpisodeRow], None], poll: Callable[[], None], clock: Stopwatch
    ) -> None:
        """Start without rows to wait for.

        Args:
            episodes: plays the episodes.
            ended: called with each row whose episode is over, as soon as this is known.
            poll: called at least twice per second while replies are waited for, and may raise.
            clock: records, as `reply_wait`, the time in which all episodes wait for replies.
        """
        self.episodes, self.ended, self.poll, self.clock = episodes, ended, poll, clock
        self._done: queue.SimpleQueue[EpisodeRow] = queue.SimpleQueue()
        self._waiting = 0

    def watch(self, row: EpisodeRow) -> None:
        """Wait for the reply to `row` as well."""
        assert row.waiting is not None
        self._waiting += 1
        row.waiting.add_done_callback(lambda _: self._done.put(row))

    def arrivals(self, idle: bool) -> list[Request]:
        """Return requests for the next turns of the episodes whose replies have come; see `engines.base.Arrivals`.

        If `idle` is True, the engine has nothing to do, so wait until there is a request or no episode is left to wait for.
        """
        turns: list[Request] = []
        while self._waiting and (row := self._next(block=idle and not turns)) is not None:
            self._waiting -= 1
            if not self.episodes.settle(row):
                self.ended(row)
            elif row.waiting is not None:  # its end is on the way
                self.watch(row)
            else:
                turns.append(row.request)
        return turns

    def _next(self, *, block: bool) -> EpisodeRow | None:
        """Return a row whose future is done; None if there is none and `block` is false."""
        try:
            return self._done.get_nowait()
        except queue.Empty:
            if not block:
                return None
        with self.clock("reply_wait"):
            while True:
                self.poll()
                try:
                    return self._done.get(timeout=POLL_S)
                except queue.Empty:
                    continue


def abandon(rows: Iterable[EpisodeRow]) -> None:
    """End the sessions of `rows`, whose episodes will not be played to their end."""
    for row in rows:
        if row.reason is None:
            row.episode.end()


def plays(engine: Any) -> bool:
    """Return True if `engine` is an `EpisodeEngine`."""
    return hasattr(engine, "play")


def play_turns(engine: Any, requests: Sequence[Request], temperature: float, on_finished: OnFinished) -> None:
    """Sample a completion for each request, with any engine.

    An engine that is not an `EpisodeEngine` takes one token limit for all requests: the largest of the requests' limits.

    Args:
        engine: samples from the policy.
        requests: see `EpisodeEngine.play`. Each has its own prompt, even where prompts are equal.
        temperature: 0 is greedy.
        on_finished: called with the place of a request and its completion.
    """
    if plays(engine):
        known: EpisodeEngine = engine
        known.play(requests, temperature=temperature, on_finished=on_finished)
        return
    engine.generate(
        [one.prompt for one in requests],
        [[one.key] for one in requests],
        max_new_tokens=max(one.max_new_tokens for one in requests),
        temperature=temperature,
        on_finished=lambda number, _, done: on_finished(*requests[number].place, done),
    )
