"""Several processes that train one model: who they are and what they tell each other.

All of them make the same decisions from the same data: which tasks come, which groups are kept, when to stop. Only work is
shared out: each process generates and grades its part of a step's prompts, and runs its part of an update's rows.

torch is imported where there is more than one process: what only reads a run's folder does without.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.torchrun import LAUNCHED

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")

PATIENCE = timedelta(hours=6)
"""How long a process waits for another: generation and grading of the others' prompts, or a checkpoint's writing."""


@dataclass(frozen=True)
class World:
    """This process among the `size` that train together. Alone by default, where nothing is sent and nothing waited for.

    Every method but `share` must be called by all processes, in the same order.
    """

    rank: int = 0
    size: int = 1
    local_size: int = 1
    """Processes on this machine."""

    @property
    def main(self) -> bool:
        """Whether this process writes the logs and decides about checkpoints."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Return which of `count` things are this process's."""
        return range(self.rank, count, self.size)

    def gather(self, mine: Value) -> list[Value]:
        """Return every process's value, in the order of their ranks."""
        if self.size == 1:
            return [mine]
        from torch import distributed

        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, mine)
        return values

    def merge(self, mine: Sequence[Value], count: int) -> list[Value]:
        """Return the whole list of `count` values of which each process has computed those of its `share`."""
        parts = self.gather(list(mine))
        return [parts[number % self.size][number // self.size] for number in range(count)]

    def total(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the sum of every name's values, to the same bit in all processes; a name may be absent in some."""
        sums: dict[str, float] = {}
        for part in self.gather(dict(values)):
            for name, value in part.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def first(self, make: Callable[[], Value]) -> Value:
        """Return what the main process makes; the others do not call `make`."""
        if self.size == 1:
            return make()
        from torch import distributed

        box: list[Any] = [make() if self.main else None]
        distributed.broadcast_object_list(box)
        found: Value = box[0]
        return found

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return any(self.gather(flag))

    def wait(self) -> None:
        """Return when all processes have come here."""
        self.gather(None)

    def loading(self, device: torch.device) -> torch.device:
        """Return where a model is loaded that `sharding.shard` will bring to the device, whole or in part."""
        if self.size == 1:
            return device
        import torch

        return torch.device("cpu")

    def workers(self, wanted: int | None) -> int | None:
        """Return how many grading processes this process starts; the cores of a machine are shared by default."""
        if wanted is not None or self.size == 1:
            return wanted
        return max(1, len(os.sched_getaffinity(0)) // self.local_size)


SOLO = World()


def refuse_alone(config: TrainConfig) -> None:
    """Refuse what only one process can do.

    Raises:
        UsageError: naming the setting.
    """
    given = {
        f"engine: {config.engine}": not ENGINES[config.engine].distributed,
        "lora_rank": config.lora_rank > 0,
        "optimizer: adamw_8bit": config.optimizer == "adamw_8bit",
        "advantage: gae": config.advantage == "gae",
    }
    for setting, on in given.items():
        if on:
            raise UsageError(f"{setting} works in one process only; leave it out, or start the run without torchrun")


def _meeting_place() -> Any:
    """Return where processes find each other: in torchrun's own store, apart from what processes before a restart left there.

    Else gloo takes their addresses for those of the living, and waits for them.
    """
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    main = os.environ["RANK"] == "0" and not hosted
    stores: Any = importlib.import_module("torch.distributed")  # its types do not name them
    store = stores.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=main)
    return stores.PrefixStore(f"verigym/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


@contextmanager
def open_world(config: TrainConfig) -> Iterator[World]:
    """Meet the other processes that torchrun has started; without torchrun, or with one process, there is nobody to meet.

    On CUDA each process takes the GPU of its number on the machine. Processes other than the main one log errors only.

    Args:
        config: the run.

    Raises:
        UsageError: there are more processes on this machine than GPUs, or the run has a setting for one process only.
    """
    sizes = {name: os.environ.get(name, "") for name in LAUNCHED}
    if not all(sizes.values()) or sizes["WORLD_SIZE"] == "1":
        yield SOLO
        return
    import torch
    from torch import distributed

    from verigym.trainer.models.loading import pick_device

    rank, size, local_rank, local_size = (int(sizes[name]) for name in LAUNCHED[:4])
    refuse_alone(config)
    backend = "gloo"
    if pick_device(config.device).type == "cuda":
        if local_size > torch.cuda.device_count():
            raise UsageError(
                f"torchrun has started {local_size} processes here, one a GPU, but torch sees {torch.cuda.device_count()}; "
                f"use --nproc-per-node {torch.cuda.device_count()}, or device=cpu"
            )
        torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl"
    logger = logging.getLogger("verigym")
    level = logger.level
    if rank:
        logger.setLevel(logging.ERROR)
    if not distributed.is_initialized():
        distributed.init_process_group(backend, timeout=PATIENCE, rank=rank, world_size=size, store=_meeting_place())
        atexit.register(distributed.destroy_process_group)  # once a process, for the same reason as below
    try:
        yield World(rank, size, local_size)
    finally:
        logger.setLevel(level)
