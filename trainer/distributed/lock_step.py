"""Lock step: processes that share every layer of a model run it the same number of times.

A layer whose weights are sharded is gathered by all processes together whenever it runs. But each process samples its own
completions and trains on its own rows, so processes need different numbers of passes. Before each pass within a `LockStep`, the
processes therefore tell each other which pass they make next, if any. A process that has no pass left runs the model on a
single token instead, until no process has a pass left. If the others run training passes, it also runs a backward pass, in
which the single token adds exactly zero to the gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed

from verigym.trainer.logprobs.forward import decoder

DONE, FORWARD, TRAINING = 0, 1, 2
"""What a process has to do next: nothing, a forward pass, or a forward pass with its backward pass."""


class LockStep:
    """Makes all processes run the same number and kind of passes of a sharded model. Otherwise the processes would hang.

    Use it by `with lock_step.open(): ...`. Within this context, each process may ask for any number of passes, or none: a
    process that has fewer than another one adds passes over a single token. All processes must open such contexts in the same
    order.
    """

    def __init__(self, model: Any) -> None:
        """Register a hook that runs before each pass of `model`.

        Args:
            model: a causal language model or a critic. Called with `input_ids` and `use_cache`, it returns `logits`.
        """
        self._model = model
        self._active = False
        self.dummies = 0
        """Number of single-token passes that this process has run only because other processes had a pass."""
        decoder(model).register_forward_pre_hook(self._before_pass)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Return a context whose passes run in lock step; at its end, wait until all processes have run their last pass.

        After an error, the end of the context does not wait.
        """
        if self._active:
            raise RuntimeError("lock step is open already")
        self._active = True
        try:
            yield
            self._keep_up()
        finally:
            self._active = False

    def _before_pass(self, *_: Any) -> None:
        if self._active:
            mine = TRAINING if torch.is_grad_enabled() else FORWARD
            theirs = _most(mine)
            if theirs != mine:
                raise RuntimeError(f"another process makes passes of kind {theirs} and this one of kind {mine}")

    def _keep_up(self) -> None:
        while kind := _most(DONE):
            self.dummies += 1
            self._active = False  # its own passes are not counted
            try:
                with torch.set_grad_enabled(kind == TRAINING):
                    run_one_token(self._model, backward=kind == TRAINING)
            finally:
                self._active = True


def run_one_token(model: Any, *, backward: bool) -> None:
    """Run `model` on a single token; with `backward`, also add exactly zero to every gradient."""
    ids_11 = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    logits = model(input_ids=ids_11, use_cache=False).logits
    if backward:
        (logits.sum() * 0).backward()


def _most(mine: int) -> int:
    """Return the largest `mine` of all processes. The exchange is on the CPU, so that it does not wait for a GPU to finish."""
    number = torch.tensor([mine], dtype=torch.int32)
    distributed.all_reduce(number, op=distributed.ReduceOp.MAX)
    return int(number)
