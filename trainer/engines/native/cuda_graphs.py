"""CUDA graphs: a computation is captured once and replayed, so that a small step costs one launch.

A replay repeats the same operations on the same memory and runs no Python, so a captured computation must read its inputs from
tensors whose addresses do not change.
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
"""Captures a computation. Returns a function that replays the computation, and the tensor that holds the result of each replay.
The content of the tensor may be undefined before the first replay."""

PLAIN_RUNS = 2
"""Number of times that a computation runs normally with inputs of one shape before it is captured for this shape. The first
runs initialise libraries, which must not be captured, and a rare shape is not worth a capture."""


def wants_graphs(wanted: bool | None, device: torch.device) -> bool:
    """Return True if native decoding should use fixed shapes and CUDA graphs.

    Args:
        wanted: the setting `cuda_graphs`; None means True on CUDA.
        device: device of the policy.

    Raises:
        UsageError: `wanted` is true and the device is not CUDA.
    """
    if wanted and device.type != "cuda":
        raise UsageError(f"cuda_graphs: true needs device cuda, and this run is on {device.type}; leave cuda_graphs out")
    return device.type == "cuda" if wanted is None else wanted


class CapturedGraphs:
    """The captured CUDA graphs of one computation, one per shape."""

    def __init__(self, record: Record | None) -> None:
        """Capture graphs with `record`; if `record` is None, run the computation without graphs."""
        self._record = record
        self._runs: Counter[Hashable] = Counter()
        self._made: dict[Hashable, tuple[Callable[[], None], torch.Tensor]] = {}

    def __call__(self, shape: Hashable, run: Run) -> torch.Tensor:
        """Return the result of `run`, replayed from a graph after the first calls for `shape`.

        The next call for this shape overwrites the result.
        """
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
    """Return a function that captures CUDA graphs.

    The graphs share one pool of memory, which is freed with the last of them.
    """
    pool = torch.cuda.graph_pool_handle()

    def record(run: Run) -> tuple[Callable[[], None], torch.Tensor]:
        graph = torch.cuda.CUDAGraph()
        # A weight that autocast casts during capture is part of the graph; its cached cast would be empty outside.
        caching = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            # Other threads, such as grading, may use CUDA meanwhile.
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                result = run()
        finally:
            torch.set_autocast_cache_enabled(caching)
        return graph.replay, result

    return record
