"""`World`: the processes that train one model together, and their collective operations.

All processes make the same decisions from the same data: which tasks are drawn, which groups are kept, when to stop. Only the
work is divided: each process generates and grades its share of a step's prompts, and runs its share of an update's rows.

torch is imported only where there are several processes, so that commands that read a run's folder do not need it.
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
from verigym.sandbox.cores import usable_cores
from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.distributed.torchrun import LAUNCHED

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")

PATIENCE = timedelta(hours=6)
"""Longest wait for another process, which may be generating, grading or writing a checkpoint."""


@dataclass(frozen=True)
class World:
    """This process among the `size` processes that train together. The default is a single process without communication.

    `gather`, `merge`, `total`, `first`, `any` and `wait` are collective: all processes must call them in the same order.
    """

    rank: int = 0
    size: int = 1
    local_size: int = 1
    """Processes on this machine."""

    @property
    def main(self) -> bool:
        """Return True if this process writes the logs and decides about checkpoints."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Return the indices of this process's share of `count` items."""
        return range(self.rank, count, self.size)

    def gather(self, value: Value) -> list[Value]:
        """Return the `value` of every process, by rank."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def merge(self, local: Sequence[Value], count: int) -> list[Value]:
        """Collect from all processes the values of the `count` items of a list, and return them in order.

        `local` holds the values of the items in this process's `share`.
        """
        parts = self.gather(list(local))
        return [parts[number % self.size][number // self.size] for number in range(count)]

    def total(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the sum over the processes of each entry in `values`, bit-identical in all of them.

        An entry may be absent in some processes.
        """
        sums: dict[str, float] = {}
        for part in self.gather(dict(values)):
            for name, value in part.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def first(self, make: Callable[[], Value]) -> Value:
        """Call `make` in the main process only, and return its result in every process."""
        if self.size == 1:
            return make()
        from torch import distributed

        box: list[Any] = [make() if self.main else None]
        distributed.broadcast_object_list(box)
        value: Value = box[0]
        return value

    def any(self, flag: bool) -> bool:
        """Return True if `flag` is set in any process."""
        return any(self.gather(flag))

    def wait(self) -> None:
        """Wait until all processes have called this."""
        self.gather(None)

    def loading(self, device: torch.device) -> torch.device:
        """Return the device to load a model on before it is sharded.

        This is the CPU if `fsdp.shard` will shard the model, else `device`.
        """
        if self.size == 1:
            return device
        import torch

        return torch.device("cpu")

    def workers(self, wanted: int | None) -> int | None:
        """Return the number of grading processes to start: `wanted` if given, else this process's share of the cores.

        If `wanted` is None and there is a single process, return None, which means one per core.
        """
        if wanted is not None or self.size == 1:
            return wanted
        return max(1, usable_cores() // self.local_size)


SOLO = World()
"""A single process."""


def refuse_alone(config: TrainConfig) -> None:
    """Refuse settings that work in a single process only.

    Raises:
        UsageError: names the setting.
    """
    single_process_settings = {
        f"engine: {config.engine}": not ENGINES[config.engine].distributed,
        "optimizer: adamw_8bit": config.optimizer == "adamw_8bit" and (not config.lora_rank or config.advantage == "gae"),
        f"overlap: {config.overlap}": config.overlap != "none",
        f"cluster: {config.cluster}": config.cluster is not None,
    }
    for setting, on in single_process_settings.items():
        if on:
            raise UsageError(f"{setting} works in one process only; leave it out, or start the run without torchrun")


def _rendezvous_store() -> Any:
    """Return torchrun's store under a prefix for this restart.

    Without the prefix, gloo connects to stale addresses and hangs.
    """
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    main = os.environ["RANK"] == "0" and not hosted
    stores: Any = importlib.import_module("torch.distributed")  # its types do not name them
    store = stores.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=main)
    return stores.PrefixStore(f"verigym/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


@contextmanager
def open_world(config: TrainConfig) -> Iterator[World]:
    """Connect the processes that torchrun has started, and yield this process's `World`.

    Without torchrun, the world is a single process. On CUDA each process takes the GPU of its local rank. All processes
    except the main one log errors only.

    Args:
        config: the settings of the run.

    Raises:
        UsageError: this machine has more processes than GPUs, or a setting works in a single process only.
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
        distributed.init_process_group(backend, timeout=PATIENCE, rank=rank, world_size=size, store=_rendezvous_store())
        atexit.register(distributed.destroy_process_group)  # not in this context: a later run in this process reuses the group
    try:
        yield World(rank, size, local_size)
    finally:
        logger.setLevel(level)
