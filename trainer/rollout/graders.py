"""Opens the processes that grade the sources of a mixture, and those that hold the sessions of episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.session import opens_sessions
from verigym.envs.grading import Grader
from verigym.envs.grading.placement import pools
from verigym.envs.sessions import Sessions
from verigym.trainer.config.episodes import EpisodeFields
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.tasks.mixture import Source


@contextmanager
def open_graders(sources: Sequence[Source], config: TrainConfig, world: World = SOLO) -> Iterator[dict[str, Grader]]:
    """Return a context that yields the grader of each source, by the source's label.

    Sources share a grader where possible. A grader holds one environment of each name, so sources that use the same environment
    with different options get different graders.
    """
    made, pool_of = pools({source.label: source.environment for source in sources})
    limits: dict[str, Any] = {"timeout_s": config.grade_timeout_s, "memory_bytes": config.grade_memory_mb * 2**20}
    limits["cluster"] = config.cluster
    with ExitStack() as stack:
        graders = [stack.enter_context(Grader(pool, workers=world.workers(config.workers), **limits)) for pool in made]
        for grader in graders:
            grader.start()  # reports an environment that no worker can run before the first step
        yield {label: graders[number] for label, number in pool_of.items()}


@contextmanager
def open_sessions(sources: Sequence[Source], config: TrainConfig, world: World = SOLO) -> Iterator[dict[str, Sessions]]:
    """Return a context that yields the `Sessions` of each source whose environment has episodes, by the source's label.

    Sources share sessions in the same way as graders; see `open_graders`.

    Raises:
        UsageError: a setting of episodes is given, and no source has episodes.
    """
    playing = {source.label: source.environment for source in sources if opens_sessions(source.environment)}
    shared, pool_of = pools(playing)
    for name, field in EpisodeFields.model_fields.items() if not shared else ():
        if getattr(config, name) != field.default:
            raise UsageError(f"{name} is about episodes, and no source has tools or an environment with turns; leave it out")
    limits: dict[str, Any] = {"timeout_s": config.turn_timeout_s, "memory_bytes": config.grade_memory_mb * 2**20}
    with ExitStack() as stack:
        made = [stack.enter_context(Sessions(pool, workers=world.workers(config.workers), **limits)) for pool in shared]
        for sessions in made:
            sessions.start()
        yield {label: made[number] for label, number in pool_of.items()}
