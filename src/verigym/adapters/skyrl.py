"""Adapter for SkyRL: an environment for skyrl-gym, and rows for SkyRL's data sets.

SkyRL demands a reward for each turn. The last turn gets the reward of the verdict; the turns before it get 0. The argument
`unscored` says what to report if the verdict has no reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from verigym.adapters.episodes import Episodes, PlayedEpisode, with_tools_told
from verigym.adapters.scoring import Always, Scorer, Unscored
from verigym.adapters.sources import COLUMN, Sources, SourcesLike, open_sources
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.envs.extras import need

NAME = "verigym"
"""Name of the environment in the rows, to be used in `skyrl_gym.register("verigym", "my_module:Environment")`."""


def environment(
    what: SourcesLike | Sources,
    *,
    unscored: Unscored,
    columns: Mapping[str, str | None] | None = None,
    max_turns: int | None = None,
    turn_timeout_s: float = 30.0,
    stop_after: int | None = 64,
    **settings: Any,
) -> type:
    """Return a subclass of skyrl-gym's `BaseTextEnv`, to be registered with skyrl-gym.

    The tasks of sources with tools, or with episodes of several turns, are played in several turns.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        unscored: what to do about a missing reward: `stop`, `retry` or a number to report in its place.
        columns: for rows that were not made by `rows`: maps each field of the environment's reference (what it grades against)
            to the row's column.
        max_turns: maximum number of model turns in an episode; by default SkyRL's `generator.max_turns`.
        turn_timeout_s: wall time in seconds that a session may take to answer one turn.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        settings: keyword arguments of `Grader` and of `open_sources`.

    Raises:
        UsageError: `Scorer` or `Always` refuses an argument, or skyrl-gym is not installed.
    """
    theirs = need("skyrl_gym.envs.base_text_env", "an environment of SkyRL")
    always = Always(Scorer(what, columns=columns, stop_after=stop_after, **settings), unscored)
    # SkyRL passes its limit with each row, so each environment holds its own.
    episodes = Episodes(always.scorer, max_turns=max_turns, turn_timeout_s=turn_timeout_s)

    class Environment(theirs.BaseTextEnv):  # type: ignore[name-defined, misc]
        """One episode of a row."""

        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()
            self._row = dict(extras or {})
            self.max_turns = max_turns or int(self._row.get("max_turns") or 1)
            self._task: tuple[str, Prompt] | None = None
            self._episode: PlayedEpisode | None = None
            self._metrics: dict[str, float] = {}

        def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
            """Begin the episode; return its messages, with tools described in the system message, and the source's label."""
            self._task = label, task = always.scorer.task(self._row, prompt)
            self._episode = episodes.open(self._task, episodes.next_seed(task))
            return with_tools_told(task, always.scorer.sources.environments[label], prompt), {"source": label}

        def step(self, action: str) -> Any:
            """Answer a turn, and judge the episode where it is over."""
            if self._task is None or self._episode is None:
                raise UsageError("step comes after init, which begins the episode")
            self.turns += 1
            replies = self._episode.turn(action)
            if not self._episode.over and self.turns >= self.max_turns:
                self._episode.end("turns")
            if not self._episode.over:
                said = [{"role": reply.role, "content": reply.content} for reply in replies]
                return theirs.BaseTextEnvStepOutput(observations=said, reward=0.0, done=False, metadata={})
            told = always.reward(self._task, self._episode.completion())
            self._metrics = {"unscored": float(told.stand_in), "turns": float(self.turns)}
            metadata = {"status": told.score.status.value, "reason": told.score.reason, "unscored": told.stand_in}
            return theirs.BaseTextEnvStepOutput(observations=[], reward=told.reward, done=True, metadata=metadata)

        def get_metrics(self) -> dict[str, float]:
            """Return `unscored` (1.0 if the reward is only a substitute) and `turns`; empty if no episode has ended yet."""
            return dict(self._metrics)

        def close(self) -> None:
            """End an episode that SkyRL breaks off."""
            if self._episode is not None and not self._episode.over:
                self._episode.end("abort")

    return Environment


def rows(what: SourcesLike | Sources, count: int, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield `count` rows for a SkyRL data set, each with `prompt`, `env_class`, `data_source` and the whole task.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        count: number of rows.
        options: keyword arguments of `open_sources`.

    Raises:
        UsageError: `open_sources` refuses an argument, or `Sources.rows` cannot make the rows.
    """
    for row in open_sources(what, **options).rows(count):
        yield {"prompt": row["prompt"], "env_class": NAME, "data_source": row["source"], COLUMN: row[COLUMN]}
