"""Computations that are recorded once and played again, as CUDA graphs: on a GPU a small step then costs one launch.

A recording holds no Python: what is played again are the same operations on the same memory. So what is recorded reads what
changes from tensors that stay where they are.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable

import torch

from verigym.envs.contract.errors import UsageError

logger = logging.getLogger("verigym.trainer")

Run = Callable[[], torch.Tensor]
Record = Callable[[Run], tuple[Callable[[], None], torch.Tensor]]
"""Takes a computation, whose results it may leave undefined, and returns what plays it and where the result then is."""

PLAIN_RUNS = 2
"""Times that a shape is run before it is recorded: what libraries prepare at first use must not be in the recording, and a
shape that does not come again is not worth one."""


def wants_graphs(wanted: bool | None, device: torch.device) -> bool:
    """Return whether native decoding uses fixed shapes and CUDA graphs.

    Args:
        wanted: the setting `cuda_graphs`; None means on with CUDA.
        device: of the policy.

    Raises:
        UsageError: `wanted` is true and the device is not CUDA.
    """
    if wanted and device.type != "cuda":
        raise UsageError(f"cuda_graphs: true needs device cuda, and this run is on {device.type}; leave cuda_graphs out")
    return device.type == "cuda" if wanted is None else wanted


class Graphs:
    """Recordings of one computation, by its shape."""

    def __init__(self, record: Record | None) -> None:
        """Record with this; never where None."""
        self._record = record
        self._runs: Counter[Hashable] = Counter()
        self._made: dict[Hashable, tuple[Callable[[], None], torch.Tensor]] = {}

    def __call__(self, shape: Hashable, run: Run) -> torch.Tensor:
        """Return the computation's result, in memory that its next call for this shape writes to."""
        if shape not in self._made and self._record is not None and self._runs[shape] >= PLAIN_RUNS:
            try:
                self._made[shape] = self._record(run)
            except RuntimeError as error:
                line = " ".join(str(error).split())[:200]
                logger.warning("CUDA graphs are off for this generation, which is slower and otherwise the same: %s", line)
                self._record = None
        self._runs[shape] += 1
        if shape not in self._made:
            return run()
        play, result = self._made[shape]
        play()
        return result


def cuda_record() -> Record:
    """Return what records CUDA graphs that share one pool of memory, which is given back with the last of them."""
    pool = torch.cuda.graph_pool_handle()

    def record(run: Run) -> tuple[Callable[[], None], torch.Tensor]:
        graph = torch.cuda.CUDAGraph()
        # A weight that autocast converts in here belongs to the recording; outside it would hold nothing yet.
        caching = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            # Other threads, such as those that grade, may do what they like meanwhile.
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                result = run()
        finally:
            torch.set_autocast_cache_enabled(caching)
        return graph.replay, result

    return record
