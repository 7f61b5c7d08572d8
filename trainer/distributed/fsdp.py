"""`shard: optimizer`: FSDP2, with weights, gradients and optimizer state of a model sharded over processes between its passes.

Every matrix is divided into rows, and each process owns a share of the rows. Between passes, a process holds only its own rows.
For generation and for the passes of an update, `gather` gives it the full weights. During generation and during these passes,
no process waits for another, so each may run any number of micro-batches of any shape. `ShardedPolicy.reduce_gradients` ends
the passes of an update: it sums the gradients over all processes, leaves each process its own rows of the sum, and frees the
full weights. The functions here do nothing to a model that was never sharded.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from verigym.trainer.distributed.full_shards import gathered as lock_step_passes
from verigym.trainer.distributed.full_shards import lock_step_of
from verigym.trainer.distributed.world import World
from verigym.trainer.models.lora import export_policy


def shard(model: Any, world: World, device: torch.device) -> None:
    """Shard the parameters of `model` by rows over the processes, in place; do nothing in a single process.

    Args:
        model: a transformers causal language model, the same in every process, on the device that `World.loading` returns.
        world: the processes that train together.
        device: device of this process.
    """
    if world.size == 1:
        return
    mesh = init_device_mesh(device.type, (world.size,))
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for module in [*layers, model]:
        fully_shard(module, mesh=mesh, reshard_after_forward=False)
    # FSDP takes the first module that runs for the root; later passes may run only a part of the model.
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device), use_cache=False)
    for part in _parts(model):
        # Token weights of the whole batch make the gradient a sum. gloo has no reduction that divides, even by 1.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
        # Otherwise FSDP prefetches weights in the order of past forward passes, which differs between processes.
        part.set_reshard_after_backward(False, recurse=False)
    _reduce_now(model, False)
    release(model)


def gather(model: Any) -> None:
    """Give every process a copy of the full weights of `model`. After the weights change, call `release` and gather again."""
    for part in _parts(model):
        part.unshard()


def release(model: Any) -> None:
    """Free the full weights of `model`, so that its parameters are this process's rows again."""
    for part in _parts(model):
        part.reshard()


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Return a context in which any number of forward passes of `model` may run.

    With `shard: full`, the passes run in lock step with the other processes. Otherwise the full weights of a sharded model are
    gathered for the context and released at its end. If they were gathered before, they stay gathered.
    """
    if lock_step_of(model) is not None:
        with lock_step_passes(model):
            yield
        return
    sharded = any(isinstance(parameter, DTensor) for parameter in model.parameters())
    if sharded:
        gather(model)
    try:
        yield
    finally:
        if sharded:
            release(model)


def clip_gradients(parameters: Iterable[torch.Tensor], max_norm: float) -> torch.Tensor:
    """Scale the gradients to a global norm of at most `max_norm`, and return the norm over all processes before scaling."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


class ShardedPolicy:
    """A policy sharded over processes for training, and a copy for inference and export that shares its weights."""

    in_rows: bool
    """Whether each process saves its own rows of the weights. If False, the first process saves the whole model."""

    def __init__(self, model: Any, world: World, device: torch.device) -> None:
        """Shard `model` in place. Its parameters are then this process's rows, and an optimizer can be made for them.

        Args:
            model: the policy. In a single process, no copy is made: the policy itself is used for inference, too.
            world: the processes that train together.
            device: device of this process.
        """
        self.model = model
        self.inference_copy = _inference_copy(model, device) if world.size > 1 else model
        self.in_rows = world.size > 1
        self._world = world
        shard(model, world, device)

    def gather(self) -> None:
        """Give the model and its inference copy the full weights as they are now."""
        gather(self.model)
        if self.inference_copy is not self.model:
            for copied, parameter in zip(self.inference_copy.parameters(), self.model.parameters(), strict=True):
                copied.data = parameter.data  # shared, so that `release` frees both

    @contextmanager
    def released(self) -> Iterator[None]:
        """Return a context in which each process holds only its own rows of the weights; its end gathers the full weights."""
        release(self.model)
        try:
            yield
        finally:
            self.gather()

    def reduce_gradients(self) -> None:
        """Sum the gradients over the processes and leave each process its rows of weights and gradients.

        A single process does nothing.
        """
        if self.inference_copy is self.model:
            return
        for parameter in self.model.parameters():
            if parameter.requires_grad and parameter.grad is None:  # such as an expert that got no token here
                parameter.grad = torch.zeros_like(parameter)
        # FSDP reduces in a backward pass. This one runs the same tiny batch in all processes and adds exactly zero.
        _reduce_now(self.model, True)
        ids_11 = torch.zeros(1, 1, dtype=torch.long, device=self.model.device)
        zero = self.model(input_ids=ids_11, use_cache=False).logits.sum() * 0
        zero.backward()
        _reduce_now(self.model, False)
        release(self.model)

    def export(self, folder: Path) -> None:
        """Write the model to `folder` so that transformers can load it, with adapters merged. All processes call this."""
        if self._world.main:
            export_policy(self.inference_copy, folder)


def _inference_copy(model: Any, device: torch.device) -> Any:
    """Return the modules of `model` without weights and without FSDP's hooks, which would slow down decoding noticeably."""
    empty = {id(p): torch.nn.Parameter(p.new_empty(0), requires_grad=False) for p in model.parameters()}
    return copy.deepcopy(model, dict(empty)).to(device)


def _parts(model: Any) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _reduce_now(model: Any, on: bool) -> None:
    for part in _parts(model):
        part.set_requires_gradient_sync(on, recurse=False)
