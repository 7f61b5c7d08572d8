"""Adapter for OpenEnv: a server that offers our environments, and a typed client of this server.

    # serve.py; then: uvicorn serve:app
    from verigym.adapters import openenv
    app = openenv.app("suite.yaml", data_dir="data")

A client chooses its task by the arguments of `reset`: `index` and `split`; or `seed`; or `verigym`, which is the whole task as
in the column `verigym` of an exported data set.

Each `step` sends a text of the model; the observation holds the messages that the model reads next. An
episode's last observation is `done` and has the reward. If grading failed, `reward` is None and `error` says why: leave out
such an episode; do not count it as 0. For the opposite direction, `openenv_environment` makes a verigym environment of an
OpenEnv server.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from verigym.adapters.episodes import Episodes, PlayedEpisode, with_tools_told
from verigym.adapters.scoring import Scorer
from verigym.adapters.sources import COLUMN, Sources, SourcesLike
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import FinishReason, Prompt, sha256_hex
from verigym.envs.extras import need

if TYPE_CHECKING:
    import fastapi

WHAT = "verigym.adapters.openenv"
TRAIN, HELD_OUT = "train", "test"
ROWS = 1000
SESSIONS = 64


class Types(NamedTuple):
    """The classes of the messages that OpenEnv's client and server exchange: actions, observations and states."""

    action: type[Any]
    """An action has the field `text`, and `finish_reason` if the model did not end the text itself."""
    observation: type[Any]
    """An observation has the `messages` that the model reads next; an episode's last observation also has `status`, `reason`
    and `error`."""
    state: type[Any]
    """`source` and `key` of the task."""


@cache
def types() -> Types:
    """Return the `Types` for verigym: its subclasses of OpenEnv's action, observation and state.

    Raises:
        UsageError: openenv is not installed.
    """
    base = need("openenv.core.env_server.types", WHAT)

    class TextAction(base.Action):  # type: ignore[misc, name-defined]
        """A turn of the model."""

        text: str
        finish_reason: Literal["stop", "length", "context"] | None = None

    class TextObservation(base.Observation):  # type: ignore[misc, name-defined]
        """What the model reads, and at the end the verdict."""

        messages: list[dict[str, str]] = []
        status: str = ""
        reason: str = ""
        error: str = ""

    class TaskState(base.State):  # type: ignore[misc, name-defined]
        """The task that is played."""

        source: str = ""
        key: str = ""

    return Types(TextAction, TextObservation, TaskState)


def environment(
    what: SourcesLike | Sources,
    *,
    rows: int = ROWS,
    data_dir: Path | str | None = None,
    max_turns: int = 8,
    turn_timeout_s: float = 30.0,
    **settings: Any,
) -> type[Any]:
    """Return a subclass of OpenEnv's `Environment`, whose instances share one set of worker processes.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        rows: number of tasks in the split `train`; `eval_count` sets the number of held-out tasks in the split `test`.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        max_turns: maximum number of model turns in an episode.
        turn_timeout_s: wall time in seconds that a session may take to answer one turn.
        settings: keyword arguments of `Scorer`, including those of `open_sources`, such as `eval_split` and `eval_count`.

    Raises:
        UsageError: `Scorer` refuses an argument, or openenv is not installed.
    """
    interfaces, (_, observation_type, state_type) = need("openenv.core.env_server.interfaces", WHAT), types()
    scorer = Scorer(what, data_dir=data_dir, **settings)
    tasks = Rows(scorer.sources, rows)
    episodes = Episodes(scorer, max_turns=max_turns, turn_timeout_s=turn_timeout_s)

    class VerigymEnvironment(interfaces.Environment):  # type: ignore[misc, name-defined]
        """One episode at a time; each client has its own."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._game = Game(episodes, tasks)
            self._state = state_type()

        def reset(
            self,
            seed: int | None = None,
            episode_id: str | None = None,
            *,
            split: str = TRAIN,
            index: int | None = None,
            verigym: str | None = None,
        ) -> Any:
            messages = self._game.begin(seed, episode_id, split, index, verigym)
            label, prompt = self._game.task
            self._state = state_type(episode_id=episode_id, source=label, key=prompt.key)
            return observation_type(messages=messages)

        def step(self, action: Any, timeout_s: float | None = None) -> Any:
            if timeout_s is not None:
                raise UsageError("timeout_s has no effect: the server's turn_timeout_s and timeout_s hold; leave it out")
            told = self._game.take(action.text, action.finish_reason)
            self._state.step_count += 1
            return observation_type(**told)

        @property
        def state(self) -> Any:
            return self._state

        def close(self) -> None:
            self._game.leave()

        def list_splits(self) -> list[str]:
            return [split for split in (TRAIN, HELD_OUT) if tasks.count(split)]

        def num_tasks(self, split: str) -> int:
            return tasks.count(split)

        def list_tasks(self, split: str) -> list[dict[str, Any]]:
            return [tasks.told(split, index) for index in range(tasks.count(split))]

        def get_task(self, split: str, index: int) -> dict[str, Any]:
            return tasks.told(split, index)

    return VerigymEnvironment


def app(
    what: SourcesLike | Sources, *, max_concurrent_envs: int = SESSIONS, name: str = "verigym", **settings: Any
) -> fastapi.FastAPI:
    """Return an OpenEnv server application that serves the tasks of `what`.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        max_concurrent_envs: maximum number of clients at the same time.
        name: name of the environment that OpenEnv reports.
        settings: keyword arguments of `environment`.

    Raises:
        UsageError: `environment` refuses an argument.
    """
    made, (action_type, observation_type, state_type) = environment(what, **settings), types()
    server = need("openenv.core.env_server.http_server", WHAT)
    served: fastapi.FastAPI = server.create_app(
        made, action_type, observation_type, env_name=name, max_concurrent_envs=max_concurrent_envs, state_cls=state_type
    )
    return served


def client(base_url: str, **settings: Any) -> Any:
    """Return an OpenEnv client for a server made by `app`; use it with `async with`, or call its `.sync()`.

    Args:
        base_url: the server's URL.
        settings: keyword arguments of OpenEnv's `EnvClient`.

    Raises:
        UsageError: openenv is not installed.
    """
    core, results = need("openenv.core.env_client", WHAT), need("openenv.core.client_types", WHAT)
    action_type, observation_type, state_type = types()

    class VerigymClient(core.EnvClient):  # type: ignore[misc, name-defined]
        """Texts of the model in, observations out."""

        def _step_payload(self, action: Any) -> dict[str, Any]:
            made = action_type(text=action) if isinstance(action, str) else action
            payload: dict[str, Any] = made.model_dump(exclude_none=True)
            return payload

        def _parse_result(self, payload: dict[str, Any]) -> Any:
            reward, done = payload.get("reward"), payload.get("done", False)
            observation = observation_type(**payload.get("observation", {}), reward=reward, done=done)
            return results.StepResult(observation=observation, reward=reward, done=done, metadata=payload.get("metadata"))

        def _parse_state(self, payload: dict[str, Any]) -> Any:
            return state_type(**payload)

    return VerigymClient(base_url=base_url, **settings)


class Game:
    """The state of one client of the server: the episode that it is playing.

    Args:
        episodes: opens the episodes.
        tasks: the server's tasks.
    """

    def __init__(self, episodes: Episodes, tasks: Rows) -> None:
        self._episodes, self._tasks = episodes, tasks
        self._episode: PlayedEpisode | None = None

    @property
    def task(self) -> tuple[str, Prompt]:
        """The source's label and the prompt of the episode's task."""
        return self._going().task

    def begin(
        self, seed: int | None, episode_id: str | None, split: str = TRAIN, index: int | None = None, cell: str | None = None
    ) -> list[dict[str, Any]]:
        """Begin an episode and return the messages that the model reads first.

        Args:
            seed: chooses the task if neither `index` nor `cell` is given; the episode's seed also depends on it.
            episode_id: the client's name for the episode; the episode's seed also depends on it.
            split: the split that the task is taken from.
            index: number of the task in its split.
            cell: the task itself, as the column `verigym` of a row holds it.

        Raises:
            ValueError: there is no such split or task, or `cell` holds no task.
            IndexError: `index` is not below the split's number of tasks.
        """
        scorer = self._episodes.scorer
        label, prompt = task = scorer.task({COLUMN: self._tasks.cell(split, index, seed) if cell is None else cell})
        self._episode = self._episodes.open(task, sha256_hex(f"{prompt.key}/{seed}/{episode_id}"))
        return with_tools_told(prompt, scorer.sources.environments[label], [one.model_dump() for one in prompt.messages])

    def take(self, text: str, reason: FinishReason | None = None) -> dict[str, Any]:
        """Play one turn of the model and return the fields of the observation that follows.

        Args:
            text: what the model wrote.
            reason: why the turn ended; a turn that was cut off ends the episode without a reply.

        Raises:
            ValueError: no episode is open, or it is over.
        """
        episode, scorer = self._going(), self._episodes.scorer
        if episode.over:
            raise UsageError("the episode is over: call reset for the next one")
        if reason in ("length", "context"):
            episode.end(reason, text)
        elif replies := episode.turn(text):
            return {"messages": [one.model_dump() for one in replies]}
        verdict = scorer.score(episode.task, episode.completion())
        reward = scorer.reward(verdict)
        error = "" if reward is not None else verdict.error.message if verdict.error is not None else verdict.reason
        known = {"grader": verdict.grader, "components": dict(verdict.components), "answer": verdict.answer}
        ended = {"done": True, "reward": reward, "status": verdict.status.value, "reason": verdict.reason}
        return {**ended, "error": error, "metadata": known}

    def leave(self) -> None:
        """Drop the episode without grading it."""
        self._episode = None

    def _going(self) -> PlayedEpisode:
        if self._episode is None:
            raise UsageError("no episode is going on: call reset first")
        return self._episode


class Rows:
    """The tasks of a server, by split and number. Training tasks are read from `sources` only when they are first requested.

    Args:
        sources: where the tasks come from.
        count: number of tasks in the training split.

    Raises:
        UsageError: `count` is below 1.
    """

    def __init__(self, sources: Sources, count: int) -> None:
        if count < 1:
            raise UsageError(f"rows={count}: expected at least 1")
        self._train = count if sources.makes_rows else 0
        self._rows = sources.rows(count)
        self._read: list[Mapping[str, Any]] = []
        self._held_out = list(sources.held_out())
        self._next = itertools.count()
        self._lock = threading.Lock()  # each client has a thread of its own

    def count(self, split: str) -> int:
        """Return how many tasks a split has."""
        if split not in (TRAIN, HELD_OUT):
            raise UsageError(f"split={split!r}: expected {TRAIN!r} or {HELD_OUT!r}")
        return self._train if split == TRAIN else len(self._held_out)

    def cell(self, split: str, index: int | None, seed: int | None) -> str:
        """Return a task of `split` as JSON text.

        It is the task number `index`; if `index` is None, a task chosen by `seed`; if both are None, the next task in order.
        """
        most = self.count(split)
        if not most:
            raise UsageError(f"the split {split!r} has no tasks of its own: give reset a row, verigym=...")
        if index is None:
            index = next(self._next) % most if seed is None else int(sha256_hex(f"task/{seed}"), 16) % most
        cell: str = self._row(split, index)[COLUMN]
        return cell

    def told(self, split: str, index: int) -> dict[str, Any]:
        """Return `id`, `index`, `source` (label) and `key` (identifies the content) of task number `index` of `split`."""
        row = self._row(split, index)
        return {"id": f"{split}-{index}", "index": index, "source": row["source"], "key": row["key"]}

    def _row(self, split: str, index: int) -> Mapping[str, Any]:
        if not 0 <= index < self.count(split):
            raise IndexError(f"index {index} of split {split!r}, which has {self.count(split)} tasks")
        if split == HELD_OUT:
            return self._held_out[index]
        with self._lock:
            while len(self._read) <= index:
                self._read.append(next(self._rows))
        return self._read[index]
