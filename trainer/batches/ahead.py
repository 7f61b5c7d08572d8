"""`Ahead`: the next step's batch, sampled in a thread while the policy is updated.

Update and sampling begin with the same weights. Each depends only on these weights and on its own randomness keys, so the
results are the same whichever ends first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import torch

from verigym.trainer.batches.builder import Batch

GiveUp = Callable[[], bool]


class Ahead:
    """Samples the next step's batch in a thread while the policy is updated.

    It holds at most one batch. The batch is either being sampled, or sampled and waiting to be taken.
    """

    def __init__(self) -> None:
        self._batch: Future[Batch] | None = None
        self._thread: threading.Thread | None = None
        self._abandoned = False

    def start(self, sample: Callable[[GiveUp], Batch]) -> None:
        """Start to sample a batch by calling `sample` in a thread.

        Args:
            sample: returns the batch. Its argument is a function that returns True if sampling should stop.
        """
        assert self._batch is None, "a batch is waiting to be taken"
        batch: Future[Batch] = Future()
        threads = torch.get_num_threads()

        def work() -> None:
            torch.set_num_threads(threads)  # a new thread has the default, and results may depend on it in their last bits
            try:
                batch.set_result(sample(lambda: self._abandoned))
            except BaseException as error:  # raised where the batch is waited for
                batch.set_exception(error)

        self._batch, self._abandoned = batch, False
        self._thread = threading.Thread(target=work, name="verigym-ahead", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Hold `batch`, which was read from a checkpoint."""
        self._batch = Future()
        self._batch.set_result(batch)

    def finish(self) -> None:
        """Wait until the batch is sampled. The batch is stored until `take` is called.

        Raises:
            Exception: any exception that sampling raised.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._batch is not None:
            self._batch.result()

    @property
    def batch(self) -> Batch | None:
        """Return the batch that is waiting to be taken; None if there is no such batch."""
        return self._batch.result() if self._batch is not None and self._batch.done() else None

    def take(self) -> Batch | None:
        """Remove and return the batch; None if there is none."""
        self.finish()
        batch, self._batch = self.batch, None
        return batch

    def abandon(self) -> None:
        """Stop the sampling at the next completion, and discard the batch."""
        self._abandoned = True
        if self._thread is not None:
            self._thread.join()
        self._batch = self._thread = None
