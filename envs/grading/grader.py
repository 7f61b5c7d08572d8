"""`Grader`: scores many completions, with lists, streams, futures or async, and with limits, retries and a cache."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from verigym.envs.contract.base import Environment, require_environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Completion, CompletionLike, Prompt, Score
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.grading.closing import close_at_the_end
from verigym.envs.grading.engine import Engine, cannot_start
from verigym.envs.grading.judging import grades_groups
from verigym.envs.grading.placement import open_cluster
from verigym.envs.grading.process import WorkerStartError, refuse_in_a_worker
from verigym.envs.grading.stats import GraderStats
from verigym.envs.grading.workers import Limits
from verigym.sandbox.cores import usable_cores

Item = tuple[Prompt, CompletionLike]
Environments = Environment | Sequence[Environment] | Mapping[str, Environment]

MAX_DEFAULT_WORKERS = 8


class Grader:
    """Grades items of one or several environments; each item is graded by the environment that its prompt names.

    A failure to grade is a Score with `reward=None`, never an exception. A UsageError means a mistake in the call itself. For
    example, a script must grade under `if __name__ == "__main__":`, since the worker processes import the script.

    Args:
        environments: one environment, several, or a mapping from name to environment.
        workers: number of processes to grade in, started when first needed; by default one per usable core, at most 8. With 0,
            items are graded in a thread of this process: this needs no start-up, but a hanging environment cannot be stopped.
        timeout_s: seconds of wall time that one item may take.
        memory_bytes: limit of a worker's address space in bytes; None for no limit, which an environment that uses CUDA needs.
        retries: number of further tries for an item whose error is retryable.
        concurrency: mapping from environment name to the number of its items that may be graded at the same time.
        cache: path of a file that stores verdicts across runs. Errors are never stored. A verdict is used again for the same
            grader id, prompt and completion. If you wrote the environment yourself, its code must also be unchanged
            (`own_code.cache_code`).
        start_timeout_s: seconds of wall time that a worker may take to start.
        cluster: grade on the nodes of a cluster, `ray` or `ray:ADDRESS`. `workers` is then the number per node, by default one
            per core, and `concurrency` holds for the whole cluster; the cache stays on this machine.
    """

    def __init__(
        self,
        environments: Environments,
        *,
        workers: int | None = None,
        timeout_s: float = 30.0,
        memory_bytes: int | None = 4 * 2**30,
        retries: int = 2,
        concurrency: Mapping[str, int] | None = None,
        cache: Path | str | None = None,
        start_timeout_s: float = 60.0,
        cluster: str | None = None,
    ) -> None:
        self._environments = by_name(environments)
        numbers = {"workers": workers, "timeout_s": timeout_s, "start_timeout_s": start_timeout_s, "retries": retries}
        for name, value in {**numbers, "memory_bytes": memory_bytes}.items():
            _refuse(value is not None and not isinstance(value, int | float), f"{name}={value!r}: expected a number")
        per_node = workers
        if workers is None:
            workers = min(usable_cores(), MAX_DEFAULT_WORKERS)
        _refuse(workers < 0, f"workers={workers}: expected 0 or more")
        _refuse(not timeout_s > 0, f"timeout_s={timeout_s}: expected a positive number of seconds")
        _refuse(not start_timeout_s > 0, f"start_timeout_s={start_timeout_s}: expected a positive number of seconds")
        _refuse(memory_bytes is not None and memory_bytes <= 0, f"memory_bytes={memory_bytes}: expected more than 0")
        _refuse(retries < 0, f"retries={retries}: expected 0 or more")
        for name, limit in (concurrency or {}).items():
            if name not in self._environments:
                raise UsageError(f"concurrency: no environment {name!r}{did_you_mean(name, self._environments)}")
            _refuse(limit < 1, f"concurrency of {name!r} is {limit}: expected 1 or more")
        shared: dict[str, Any] = {
            "limits": Limits(timeout_s, memory_bytes, start_timeout_s, max(1, usable_cores() // max(1, workers))),
            "retries": retries,
            "concurrency": concurrency or {},
            "cache": ScoreCache(Path(cache)) if cache is not None else None,
        }
        self._engine = (
            Engine(self._environments, workers=workers, **shared)
            if cluster is None
            else open_cluster(cluster, self._environments, workers=per_node, **shared)
        )
        self.workers = workers if cluster is None else 1
        """0 if this process grades, without limits."""
        # A grader that nobody holds is closed. Futures hold it, so it is not closed under an item that somebody waits for.
        self._close = close_at_the_end(self, self._engine)

    @property
    def stats(self) -> GraderStats:
        """The counters as they are now."""
        return self._engine.counter.snapshot()

    @property
    def look_ahead(self) -> int:
        """Items that keep all workers busy."""
        return self._engine.look_ahead

    @property
    def nodes(self) -> list[Any]:
        """Return each node's share of the grading (`cluster.engine.NodeFigures`), or an empty list without `cluster`."""
        return self._engine.figures()

    def grade(self, items: Iterable[Item]) -> list[Score]:
        """Return one score an item, in order."""
        return list(self.stream(items))

    def stream(self, items: Iterable[Item], *, look_ahead: int | None = None) -> Iterator[Score]:
        """Yield one score for each of `items`, in order.

        Args:
            items: the items to grade, read as needed.
            look_ahead: number of items that may be read ahead of the last score yielded; by default enough to keep all workers
                busy.
        """
        look_ahead = self.look_ahead if look_ahead is None else look_ahead
        pending: deque[Future[Score]] = deque()
        try:
            for prompt, completion in items:
                pending.append(self.submit(prompt, completion))
                while pending and (len(pending) >= look_ahead or pending[0].done()):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    async def agrade(self, items: Iterable[Item]) -> list[Score]:
        """Return one score for each of `items`, in order, without blocking the event loop."""
        return [score async for score in self.astream(items)]

    async def astream(self, items: Iterable[Item], *, look_ahead: int | None = None) -> AsyncIterator[Score]:
        """Yield one score for each of `items`, in order, without blocking the event loop. `look_ahead` is as in `stream`."""
        look_ahead = self.look_ahead if look_ahead is None else look_ahead
        pending: deque[asyncio.Future[Score]] = deque()
        try:
            for prompt, completion in items:
                pending.append(asyncio.wrap_future(self.submit(prompt, completion)))
                await asyncio.sleep(0)
                while pending and (len(pending) >= look_ahead or pending[0].done()):
                    yield await pending.popleft()
            while pending:
                yield await pending.popleft()
        finally:
            for future in pending:
                future.cancel()

    def submit(self, prompt: Prompt, completion: CompletionLike) -> Future[Score]:
        """Queue one item and return at once. The future's result is a Score; it raises only if no worker can ever be started.

        If an equal item is queued or being graded, both share the result.

        Raises:
            UsageError: the grader is closed, or it has no environment named `prompt.environment`. If no worker can be started,
                either this call or the future raises a UsageError.
            TypeError, ValueError: the arguments are not a prompt and a completion (see `Completion.of`).
        """
        environment = self._environment(prompt)
        return self._held_by(self._engine.submit(environment, prompt, Completion.of(completion)))

    def submit_group(self, prompt: Prompt, completions: Sequence[CompletionLike]) -> list[Future[Score]]:
        """Queue the completions of one prompt, and return a future for each, in order.

        If the environment grades groups (`grades_groups`), one worker calls `score_group` once for all of them, with a time
        limit of `timeout_s` per completion; retries and cache entries then concern the whole group. For other environments each
        completion is a separate item.

        Raises:
            UsageError: see `submit`.
        """
        environment = self._environment(prompt)
        group = [Completion.of(completion) for completion in completions]
        if len(group) < 2 or not grades_groups(environment):
            return [self._held_by(self._engine.submit(environment, prompt, completion)) for completion in group]
        return [self._held_by(future) for future in self._engine.submit_group(environment, prompt, group)]

    def _held_by(self, future: Future[Score]) -> Future[Score]:
        """Let the future keep the grader: one that is dropped in between still gives its verdict."""
        future.grader = self  # type: ignore[attr-defined]
        return future

    def _environment(self, prompt: Prompt) -> Environment:
        if not isinstance(prompt, Prompt):
            raise TypeError(f"an item is (prompt, completion); its prompt is a {type(prompt).__name__}, not a Prompt")
        if self.workers:  # here and not when it is made, which a script may do as it is imported
            refuse_in_a_worker()
        environment = self._environments.get(prompt.environment)
        if environment is None:
            raise UsageError(
                f"the prompt is for environment {prompt.environment!r}, which this grader does not have"
                f"{did_you_mean(prompt.environment, self._environments)}"
            )
        return environment

    def start(self) -> None:
        """Start all workers now, instead of when first needed, and wait until they are ready.

        Raises:
            UsageError: a worker cannot be started; the message says why and what to do.
        """
        if self.workers:
            refuse_in_a_worker()
        try:
            self._engine.start()
        except WorkerStartError as error:
            raise cannot_start(error) from None

    def close(self) -> None:
        """Kill the workers at once. Each item without a verdict gets an ERROR that says the grader was closed."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise UsageError(message)


def by_name(environments: Environments) -> dict[str, Environment]:
    """Return `environments` as a mapping from name to environment.

    Raises:
        UsageError: an element is not an environment, two environments have the same name, or a key of the given mapping differs
            from its environment's name.
    """
    if isinstance(environments, Mapping):
        for name, environment in environments.items():
            require_environment(environment, "environments")
            _refuse(
                name != environment.name,
                f"environments: {environment.name!r} is given under {name!r}; items are routed by its own name",
            )
        listed: list[Environment] = list(environments.values())
    elif isinstance(environments, Iterable) and not isinstance(environments, str | Environment):
        listed = list(environments)
    else:
        listed = [require_environment(environments, "environments")]
    _refuse(not listed, "environments: none given")
    found: dict[str, Environment] = {}
    for environment in listed:
        require_environment(environment, "environments")
        _refuse(environment.name in found, f"environments: two are called {environment.name!r}")
        found[environment.name] = environment
    return found
