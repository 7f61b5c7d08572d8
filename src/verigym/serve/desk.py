"""`Desk`: accepts items, has them graded, and ensures that each accepted item is answered exactly once."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from pydantic import BaseModel

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, sha256_hex
from verigym.envs.grading import Grader
from verigym.serve.answers import Answers
from verigym.serve.catalog import Catalog
from verigym.serve.metrics import Metrics
from verigym.serve.problems import Problem
from verigym.serve.schemas import ScoreRequest

logger = logging.getLogger("verigym.serve")

LONGEST_RETRY_S = 30
DRAIN_RETRY_S = 5


@dataclass(frozen=True)
class Answer:
    """The answer to an item, which is either a score or a problem: exactly one of the two fields is set."""

    score: bytes = b""
    """The verdict as JSON."""
    problem: Problem | None = None
    """Why the item could not be graded."""


Done = Callable[[Answer], None]


def ascii_json(answer: BaseModel) -> bytes:
    """Return `answer` as JSON in ASCII, with escapes for lone surrogates, which UTF-8 cannot encode."""
    return json.dumps(answer.model_dump(mode="json"), separators=(",", ":")).encode()


class Desk:
    """Accepts items, has them graded, and passes on their answers.

    Args:
        catalog: reads tasks and completions from requests.
        grader: grades the items.
        answers: stores the answers by idempotency key.
        most: maximum number of items that are pending at the same time.
        metrics: counts items and verdicts.
    """

    def __init__(self, catalog: Catalog, grader: Grader, answers: Answers, most: int, metrics: Metrics) -> None:
        self.catalog, self.answers = catalog, answers
        self._grader, self._most, self._metrics = grader, most, metrics
        self._lock = threading.Lock()
        self._gap_s, self._last = 0.0, time.monotonic()
        self.pending = 0
        """Items that are accepted and not answered."""
        self.draining = False
        """Whether nothing more is accepted."""

    def admit(self, count: int) -> None:
        """Reserve room for `count` items. The caller must then `submit` each item, or give its room back by `release`.

        Raises:
            Problem: the service is draining, or has no room; `retry_after_s` says when to try again.
        """
        with self._lock:
            self.refuse_if_draining()
            if self.pending + count > self._most:
                wait_s = min(max(math.ceil(self.pending * self._gap_s), 1), LONGEST_RETRY_S)
                raise Problem(
                    "overloaded",
                    f"{self.pending:,} items wait for their verdict and at most {self._most:,} may; send these {count:,} later",
                    retry_after_s=wait_s,
                )
            self.pending += count

    def refuse_if_draining(self) -> None:
        """Check that the service still accepts work.

        Raises:
            Problem: the service is about to stop.
        """
        if self.draining:
            raise _stopping()

    def release(self, count: int = 1) -> None:
        """Give back the room of `count` items, which have been answered or dropped."""
        now = time.monotonic()
        with self._lock:
            self.pending -= count
            # Smoothed time from one answer to the next; a pause of the clients counts for little.
            self._gap_s += (min(now - self._last, 1.0) / count - self._gap_s) * 0.05
            self._last = now

    def submit(self, request: ScoreRequest, key: str | None, done: Done) -> Future[Score] | None:
        """Grade an admitted item; `done` is called once, in any thread, with the answer, and the item is released.

        Returns:
            A future of the score if the item has no `key` and is being graded, else None. If the future is cancelled, `done` is
            not called.
        """
        try:
            prompt, completion = self.catalog.item(request)
            return self._grade(prompt, completion, key, done)
        except EnvironmentFailure as failure:  # while the task was made; no key has been claimed
            score = failure.score()
            self._metrics.graded(self.catalog.name(request.environment), score, 0.0)
            self._finish(done, Answer(score=ascii_json(score)))
            return None
        except Problem as found:
            problem = found
        except Exception as error:  # of an environment that makes its prompts; its item must not stay open for ever
            logger.warning("%s: an item could not be read", request.environment, exc_info=True)
            problem = Problem("internal", f"{request.environment}: the item could not be read: {describe(error)}")
        name = self.catalog.name(request.environment)
        self._metrics.item(name if name in self.catalog.environments else "", "problem")
        self._finish(done, Answer(problem=problem))
        return None

    def _grade(self, prompt: Prompt, completion: Completion, key: str | None, done: Done) -> Future[Score] | None:
        if key is not None:
            content = sha256_hex(f"{prompt.environment}|{prompt.key}|{completion.digest}")
            if not self.answers.claim(key, content, lambda score: self._finish(done, _answer(score))):
                return None
        started = time.perf_counter()

        def settle(future: Future[Score]) -> None:
            if future.cancelled():
                self.release()
                return
            try:
                score = future.result()
            except Exception as error:  # no worker can be started, which is no verdict
                score = Score.failed("unavailable", str(error), retryable=True)
            kept = score.error is None or not score.error.retryable
            self._metrics.graded(prompt.environment, score, time.perf_counter() - started)
            answer = b"" if self._cut_short(score) else ascii_json(score)
            if key is not None:
                (self.answers.settle if kept else self.answers.abandon)(key, answer)
            self._finish(done, _answer(answer))

        try:
            future = self._grader.submit(prompt, completion)
        except Exception as error:  # closed, most likely
            future = Future()
            future.set_exception(error)
        future.add_done_callback(settle)
        return future if key is None else None

    def _cut_short(self, score: Score) -> bool:
        """Return True if the item has no verdict because the service stopped: whoever is there next can give one."""
        return self.draining and score.error is not None and score.error.kind == "unavailable"

    def _finish(self, done: Done, answer: Answer) -> None:
        try:
            done(answer)
        finally:
            self.release()

    async def score(self, request: ScoreRequest, key: str | None) -> Answer:
        """Admit and grade one item; return its answer.

        Raises:
            Problem: `admit` refuses the item.
        """
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()

        def deliver(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.admit(1)
        try:
            await asyncio.to_thread(self.submit, request, key, lambda answer: _soon(loop, deliver, answer))
            return await answered
        finally:
            answered.cancel()

    async def judge(self, prompt: Prompt, completion: Completion) -> Score:
        """Admit and grade the `completion` of an episode; return its score.

        Raises:
            Problem: `admit` refuses the item, or the service stopped before it was graded.
        """
        self.admit(1)
        started = time.perf_counter()
        try:
            score = await asyncio.wrap_future(self._grader.submit(prompt, completion))
        except UsageError as error:
            score = Score.failed("unavailable", str(error), retryable=True)
        finally:
            self.release()
        if self._cut_short(score):
            raise _stopping()
        self._metrics.graded(prompt.environment, score, time.perf_counter() - started)
        return score


def _soon(loop: asyncio.AbstractEventLoop, deliver: Done, answer: Answer) -> None:
    loop.call_soon_threadsafe(deliver, answer)


def _stopping() -> Problem:
    return Problem("unavailable", "the service is stopping; ask again in a moment", retry_after_s=DRAIN_RETRY_S)


def _answer(score: bytes) -> Answer:
    """Return the answer with the verdict `score`, or, if that is empty, with the problem that the service stopped before."""
    return Answer(score=score) if score else Answer(problem=_stopping())
