"""A model whose weights, gradients and optimizer state are spread over processes, by FSDP2.

Between updates each process holds its rows of every matrix. `gather` puts the whole weights beside them, for generation and
for the passes of an update, in which no process waits for another: processes may run any number of micro-batches of any
shape. `ShardedPolicy.reduce_gradients` ends an update's passes: gradients are summed over all processes, each keeps its rows,
and the whole weights are let go. A model that was never sharded is left alone by all functions here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from verigym.trainer.distributed.world import World


def shard(model: Any, world: World, device: torch.device) -> None:
    """ShardedPolicy the model's parameters over the processes, rows of each; in place. Alone, do nothing.

    Args:
        model: a transformers causal language model, the same in every process, on `World.loading`'s device.
        world: the processes.
        device: of this process.
    """
    if world.size == 1:
        return
    mesh = init_device_mesh(device.type, (world.size,))
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for module in [*layers, model]:
        fully_shard(module, mesh=mesh, reshard_after_forward=False)
    # FSDP takes the first module that runs for the outermost one; later only parts of the model may be run.
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device), use_cache=False)
    for part in _parts(model):
        # Weights of the whole batch make the gradient a sum; gloo knows no sum that is divided on the way, even by 1.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
        # Else FSDP fetches weights ahead in the order of the forward passes so far, which are others in other processes.
        part.set_reshard_after_backward(False, recurse=False)
    _reduce_now(model, False)
    release(model)


def gather(model: Any) -> None:
    """Put the whole weights into every process. They are those of this moment: after a change, `release` and gather again."""
    for part in _parts(model):
        part.unshard()


def release(model: Any) -> None:
    """Let go of the whole weights; the parameters are this process's rows again."""
    for part in _parts(model):
        part.reshard()


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Have the whole weights within this context; where they were there before, they stay."""
    spread = any(isinstance(parameter, DTensor) for parameter in model.parameters())
    if spread:
        gather(model)
    try:
        yield
    finally:
        if spread:
            release(model)


def clip_gradients(parameters: Iterable[torch.Tensor], longest: float) -> torch.Tensor:
    """Scale the gradients to a global norm of at most `longest` and return the norm that they had, over all processes."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, longest)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


class ShardedPolicy:
    """A policy that is trained while it is spread over processes, with a twin to sample from and to export."""

    def __init__(self, model: Any, world: World, device: torch.device) -> None:
        """Shard the model in place and leave it so: an optimizer is to be made of the process's rows.

        Args:
            model: the policy; alone, its twin is itself.
            world: the processes.
            device: of this process.
        """
        self.model = model
        self.inference_copy = _inference_copy(model, device) if world.size > 1 else model
        shard(model, world, device)

    def gather(self) -> None:
        """Put the whole weights of this moment into the model and its twin."""
        gather(self.model)
        if self.inference_copy is not self.model:
            for mine, theirs in zip(self.inference_copy.parameters(), self.model.parameters(), strict=True):
                mine.data = theirs.data  # no copy: with the model's they go

    @contextmanager
    def released(self) -> Iterator[None]:
        """Have only this process's rows within this context, and the whole weights again after it."""
        release(self.model)
        try:
            yield
        finally:
            self.gather()

    def reduce_gradients(self) -> None:
        """Sum the gradients of all processes, and leave each with its rows of weights and gradients; alone, do nothing."""
        if self.inference_copy is self.model:
            return
        for parameter in self.model.parameters():
            if parameter.requires_grad and parameter.grad is None:  # such as an expert that no token here has met
                parameter.grad = torch.zeros_like(parameter)
        # FSDP sums in a backward pass. In this one all processes have the same tiny batch, which adds exactly nothing.
        _reduce_now(self.model, True)
        ids_11 = torch.zeros(1, 1, dtype=torch.long, device=self.model.device)
        nothing = self.model(input_ids=ids_11, use_cache=False).logits.sum() * 0
        nothing.backward()
        _reduce_now(self.model, False)
        release(self.model)


def _inference_copy(model: Any, device: torch.device) -> Any:
    """Return the same modules without weights and without FSDP's hooks, which would cost a good part of each decoded token."""
    empty = {id(p): torch.nn.Parameter(p.new_empty(0), requires_grad=False) for p in model.parameters()}
    return copy.deepcopy(model, dict(empty)).to(device)


def _parts(model: Any) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _reduce_now(model: Any, on: bool) -> None:
    for part in _parts(model):
        part.set_requires_gradient_sync(on, recurse=False)
