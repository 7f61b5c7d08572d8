"""Grader processes for the sources of a mixture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.envs.grading import Grader
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.tasks.mixture import Source


@contextmanager
def open_graders(sources: Sequence[Source], config: TrainConfig, world: World = SOLO) -> Iterator[dict[str, Grader]]:
    """Yield each source's grader, by label. Sources share one grader unless two set one environment's options differently."""
    pools: list[dict[str, Environment]] = []
    pool_of: dict[str, int] = {}
    for source in sources:
        environment = source.environment
        for number, pool in enumerate([*pools, None]):
            if pool is None:
                pools.append({environment.name: environment})
            elif pool.setdefault(environment.name, environment).grader != environment.grader:
                continue
            pool_of[source.label] = number
            break
    limits: dict[str, Any] = {"timeout_s": config.grade_timeout_s, "memory_bytes": config.grade_memory_mb * 2**20}
    with ExitStack() as stack:
        graders = [stack.enter_context(Grader(pool, workers=world.workers(config.workers), **limits)) for pool in pools]
        for grader in graders:
            grader.start()  # reports an environment that no worker can run before the first step
        yield {label: graders[number] for label, number in pool_of.items()}
