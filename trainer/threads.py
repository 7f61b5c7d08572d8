"""How many CPU threads a model is sampled and trained with.

The numbers follow from the model's size and the usable cores, never from a measurement. Results depend on them in their last
bits, so a run keeps the numbers that it began with, on any machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from verigym.envs.openmp import unbounded
from verigym.sandbox.cores import usable_cores
from verigym.trainer.checkpoints.run_record import record_threads, recorded_threads

logger = logging.getLogger("verigym.trainer")

_offered: int | None = None
"""torch's number of threads before this module changed it."""


class Threads(NamedTuple):
    """Numbers of threads: while completions are sampled, and while the model is trained."""

    sampling: int
    update: int

    def __str__(self) -> str:
        """Return the numbers in words."""
        if self.sampling == self.update:
            return f"{self.update} thread{'s' if self.update > 1 else ''}"
        return f"{self.update} threads ({self.sampling} while sampling)"

    @contextmanager
    def while_sampling(self) -> Iterator[None]:
        """Sample with the threads for sampling, and go on with those for updates."""
        torch.set_num_threads(self.sampling)
        try:
            yield
        finally:
            torch.set_num_threads(self.update)


PARAMETERS_PER_THREAD = Threads(sampling=25_000_000, update=1_000_000)
"""So many parameters of a model keep one more thread busy. Measured on two cores: a second thread makes sampling 1.1 times
faster at 2.4M parameters, 1.2 times at 15M and 1.35 times at 52M, and updates 1.4 times at 2.4M."""


def threads_for(parameters: int, given: int | None, *, alike: bool = False, on_cpu: bool = True) -> Threads:
    """Return the numbers of threads for a model.

    Args:
        parameters: number of the model's parameters.
        given: the setting `threads`; None to choose by OMP_NUM_THREADS if the user has set it, else by size and usable cores.
        alike: True if sampling and updates must have the same number, because they run at the same time.
        on_cpu: False if the model is on a GPU; the CPU's work does not depend on its size then.
    """
    if given is None and os.environ.get("OMP_NUM_THREADS"):
        given = _offered or torch.get_num_threads()
    if given is not None:
        return Threads(given, given)
    most = min(_offered or torch.get_num_threads(), usable_cores())
    if not on_cpu:
        return Threads(most, most)
    sampling, update = (max(1, min(most, parameters // each)) for each in PARAMETERS_PER_THREAD)
    return Threads(update if alike else sampling, update)


def use_threads(
    model: Any, given: int | None, output: Path | None = None, *, label: str = "policy", alike: bool = False
) -> Threads:
    """Set this process's number of threads to that for updating `model`, and return the numbers for both phases.

    Args:
        model: a torch module.
        given: the setting `threads`.
        output: folder of the run, whose record has the numbers with which it began; None for a run without a record.
        label: name of the model in the record.
        alike: see `threads_for`.
    """
    parameters = sum(parameter.numel() for parameter in model.parameters())
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    chosen = threads_for(parameters, given, alike=alike, on_cpu=on_cpu)
    kept = recorded_threads(output, label) if output is not None else None
    if kept is not None and Threads(*kept) != chosen:
        began = Threads(*kept)
        logger.warning("this run began with %s and goes on with them; a new run would take %s here", began, chosen)
        chosen = began
    if max(chosen) > 1 and (advice := unbounded()):
        logger.warning("%s", advice)
    torch.set_num_threads(chosen.update)
    return chosen


def use_sampling_threads(model: Any, given: int | None, output: Path, label: str = "policy") -> None:
    """Set this process's number of threads to that for sampling `model`, and record it in the folder `output`.

    For the arguments see `use_threads`.
    """
    threads = use_threads(model, given, output, label=label)
    record_threads(output, label, threads)
    logger.info("%s is sampled with %s", label, Threads(threads.sampling, threads.sampling))
    torch.set_num_threads(threads.sampling)


@contextmanager
def own_threads() -> Iterator[None]:
    """Return a context in which `use_threads` may change torch's number of threads, which is restored at the end.

    Until `use_threads` is called, as while a model is loaded, the number is at most that of the usable cores: torch itself does
    not see a container's quota.
    """
    global _offered
    if _offered is not None:  # a run within another, as in the quickstart
        yield
        return
    _offered = torch.get_num_threads()
    if not os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(min(_offered, usable_cores()))
    try:
        yield
    finally:
        torch.set_num_threads(_offered)
        _offered = None
