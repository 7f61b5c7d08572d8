"""OpenEnv: our sources as an environment server, and a typed client of it.

    # serve.py; then: uvicorn serve:app
    from verigym.adapters import openenv
    app = openenv.app("suite.yaml", data_dir="data")

A client names its task at `reset`: `index` and `split`, a whole row (`verigym`), or a `seed`, which picks one. Each `step` is a
text of the model; the observation holds what it reads next. The last one is `done` and has the reward; where there is none,
`reward` stays None and `error` says why: leave such an episode out, and do not count it as 0. The other way round,
`openenv_environment` makes an environment of a server of theirs.
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
from verigym.envs.contract.schema import FinishReason, sha256_hex
from verigym.envs.extras import need

if TYPE_CHECKING:
    import fastapi

WHAT = "verigym.adapters.openenv"
TRAIN, HELD_OUT = "train", "test"
ROWS = 1000
SESSIONS = 64


class Types(NamedTuple):
    """What crosses between client and server."""

    action: type[Any]
    """`text`, and `finish_reason` where the model did not end it itself."""
    observation: type[Any]
    """`messages` that the model reads next, and of the last step `status`, `reason` and `error`."""
    state: type[Any]
    """`source` and `key` of the task."""


@cache
def types() -> Types:
    """Return the classes of actions, observations and states.

    Raises:
        UsageError: openenv is missing.
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
    """Return a class of OpenEnv's `Environment`, whose instances share the workers.

    Args:
        what: as `open_sources` takes it.
        rows: of the split `train`; the split `test` has as many held-out ones as `eval_count` says.
        data_dir: folder of the local files of data sets; the hub where left out.
        max_turns: the model's turns of an episode.
        turn_timeout_s: wall time that a session may take to answer a turn.
        settings: of `Scorer`: the Grader's, and those of `open_sources`, such as `eval_split` and `eval_count`.

    Raises:
        UsageError: as `Scorer`, or openenv is missing.
    """
    interfaces, (action_type, observation_type, state_type) = need("openenv.core.env_server.interfaces", WHAT), types()
    scorer = Scorer(what, data_dir=data_dir, **settings)
    tasks = _Rows(scorer.sources, rows)
    episodes = Episodes(scorer, max_turns=max_turns, turn_timeout_s=turn_timeout_s)

    class VerigymEnvironment(interfaces.Environment):  # type: ignore[misc, name-defined]
        """One episode at a time; each client has its own."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._episode: PlayedEpisode | None = None
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
            """Begin an episode, and return what the model reads first.

            Raises:
                ValueError: there is no such task, or a row holds none.
                IndexError: the split has fewer tasks.
            """
            cell = tasks.cell(split, index, seed) if verigym is None else verigym
            label, prompt = task = scorer.task({COLUMN: cell})
            name = sha256_hex(f"{prompt.key}/{seed}/{episode_id}") if episode_id or seed is not None else prompt.key
            self._episode = episodes.open(task, name)
            self._state = state_type(episode_id=episode_id, source=label, key=prompt.key)
            told = with_tools_told(prompt, scorer.sources.environments[label], [one.model_dump() for one in prompt.messages])
            return observation_type(messages=told)

        def step(self, action: Any, timeout_s: float | None = None) -> Any:
            """Take a turn of the model.

            Raises:
                ValueError: no episode is going on, or a time limit is given, which sessions have of their own.
            """
            if timeout_s is not None:
                raise UsageError("timeout_s has no effect: the server's turn_timeout_s and timeout_s hold; leave it out")
            if not isinstance(action, action_type):
                raise TypeError(f"an action is a {action_type.__name__}, not a {type(action).__name__}")
            episode = self._episode
            if episode is None or episode.over:
                raise UsageError("no episode is going on: call reset first")
            self._state.step_count += 1
            reason: FinishReason | None = action.finish_reason
            if reason in ("length", "context"):  # half a turn is not answered
                episode.end(reason, action.text)
            elif replies := episode.turn(action.text):
                return observation_type(messages=[one.model_dump() for one in replies])
            verdict = scorer.score(episode.task, episode.completion())
            reward = scorer.reward(verdict)
            error = "" if reward is not None else verdict.error.message if verdict.error is not None else verdict.reason
            known = {"grader": verdict.grader, "components": dict(verdict.components), "answer": verdict.answer}
            return observation_type(
                done=True, reward=reward, status=verdict.status.value, reason=verdict.reason, error=error, metadata=known
            )

        @property
        def state(self) -> Any:
            """The task that is played."""
            return self._state

        def close(self) -> None:
            """Give the episode up."""
            self._episode = None

        def list_splits(self) -> list[str]:
            """Return the splits that have tasks."""
            return [split for split in (TRAIN, HELD_OUT) if tasks.count(split)]

        def num_tasks(self, split: str) -> int:
            """Return how many tasks a split has."""
            return tasks.count(split)

        def list_tasks(self, split: str) -> list[dict[str, Any]]:
            """Return the tasks of a split, by source and key."""
            return [tasks.told(split, index) for index in range(tasks.count(split))]

        def get_task(self, split: str, index: int) -> dict[str, Any]:
            """Return one task of a split."""
            return tasks.told(split, index)

    return VerigymEnvironment


def app(
    what: SourcesLike | Sources, *, max_concurrent_envs: int = SESSIONS, name: str = "verigym", **settings: Any
) -> fastapi.FastAPI:
    """Return OpenEnv's server of our sources.

    Args:
        what: as `open_sources` takes it.
        max_concurrent_envs: clients at a time.
        name: of the environment.
        settings: of `environment`.

    Raises:
        UsageError: as `environment`.
    """
    made, (action_type, observation_type, state_type) = environment(what, **settings), types()
    server = need("openenv.core.env_server.http_server", WHAT)
    served: fastapi.FastAPI = server.create_app(
        made, action_type, observation_type, env_name=name, max_concurrent_envs=max_concurrent_envs, state_cls=state_type
    )
    return served


def client(base_url: str, **settings: Any) -> Any:
    """Return OpenEnv's client of such a server, with our classes: `async with`, or `.sync()` of it.

    Args:
        base_url: of the server.
        settings: of OpenEnv's `EnvClient`.

    Raises:
        UsageError: openenv is missing.
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


class _Rows:
    """The tasks of a server by number, read as far as they are asked for."""

    def __init__(self, sources: Sources, count: int) -> None:
        if count < 1:
            raise UsageError(f"rows={count}: expected at least 1")
        self._train = count if sources.makes_rows else 0
        self._rows = iter(sources.rows(count))
        self._read: list[Mapping[str, Any]] = []
        self._held_out = list(sources.held_out())
        self._next = itertools.count()
        self._lock = threading.Lock()  # each client has a thread of its own

    def count(self, split: str) -> int:
        if split not in (TRAIN, HELD_OUT):
            raise UsageError(f"split={split!r}: expected {TRAIN!r} or {HELD_OUT!r}")
        return self._train if split == TRAIN else len(self._held_out)

    def cell(self, split: str, index: int | None, seed: int | None) -> str:
        """Return a task: number `index`, or the one that the seed picks, or the next."""
        most = self.count(split)
        if not most:
            raise UsageError(f"the split {split!r} has no tasks of its own: give reset a row, verigym=...")
        if index is None:
            index = next(self._next) % most if seed is None else int(sha256_hex(f"task/{seed}"), 16) % most
        cell: str = self._row(split, index)[COLUMN]
        return cell

    def told(self, split: str, index: int) -> dict[str, Any]:
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
