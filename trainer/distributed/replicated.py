"""Adapters in several processes: each holds them whole and sums their gradients over the processes.

With `shard: optimizer` each process also holds the whole frozen base; with `shard: full` it holds its rows of the base.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from verigym.trainer.distributed.full_shards import export_sharded
from verigym.trainer.distributed.world import World
from verigym.trainer.models.lora import export_policy


class ReplicatedPolicy:
    """A policy that every process holds in full and updates alike; it has the same interface as `fsdp.ShardedPolicy`.

    All processes begin with the same weights. Each gets the sum of the gradients over all processes, bit by bit the same, so
    all take the same optimizer steps.
    """

    in_rows = False

    def __init__(self, model: Any, world: World) -> None:
        """Take `model`, which must be the same in every process; only parameters that require a gradient are trained."""
        self.model = self.inference_copy = model
        self._world = world

    def gather(self) -> None:
        """Do nothing: every process has the full weights."""

    @contextmanager
    def released(self) -> Iterator[None]:
        """Do nothing: nothing is sharded."""
        yield

    def reduce_gradients(self) -> None:
        """Give every process the sum of all processes' gradients."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        summed = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(summed)
        for parameter, part in zip(trained, torch.split(summed, [one.numel() for one in trained]), strict=True):
            parameter.grad = part.view_as(parameter)

    def export(self, folder: Path) -> None:
        """Write the model, with adapters merged, to `folder` so that transformers can load it. All processes call this."""
        if self._world.main:
            export_policy(self.model, folder)


class AdaptersOnShards(ReplicatedPolicy):
    """Adapters that every process holds in full, on a frozen base that `full_shards.load_sharded_with_adapters` sharded.

    Each pass gathers the base one layer after another, so passes run within `full_shards.gathered`.
    """

    def export(self, folder: Path) -> None:
        """Write the model, with adapters merged, to `folder`, one tensor after the other. All processes call this."""
        export_sharded(self.model, folder, self._world)
