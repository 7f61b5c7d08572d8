"""Counts what a process holds of a sharded base and its adapters: `count_base.py MODEL OUT` writes `OUT/RANK.json`.

One update is run as a run does it; the process of rank 1 has fewer rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from adapted import settings
from count_shards import whole_bytes
from torch import distributed
from torch.distributed.fsdp import FSDPModule

from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.full_shards import load_sharded_with_adapters, lock_step_of, repeated_layers
from verigym.trainer.distributed.replicated import AdaptersOnShards
from verigym.trainer.distributed.sharded_checkpoint import own_rows
from verigym.trainer.distributed.world import World
from verigym.trainer.learner.update import Objective, accumulate
from verigym.trainer.losses.kl import KL_ESTIMATORS
from verigym.trainer.losses.token_level import clipped
from verigym.trainer.models.loading import load_model
from verigym.trainer.models.lora import WithoutAdapter, adapter_tensors, add_adapter


def main(model_path: str, out: str) -> None:
    distributed.init_process_group("gloo")
    world = World(distributed.get_rank(), distributed.get_world_size())
    device, config = torch.device("cpu"), settings()
    model, _ = load_sharded_with_adapters(config, model_path, 3, world, device, None)
    adapters = adapter_tensors(model)
    alone = adapter_tensors(add_adapter(load_model(model_path, device)[0], config, 3))
    base = [parameter for name, parameter in model.named_parameters() if name not in adapters]
    found = {
        "base_whole": sum(parameter.numel() for parameter in base),
        "base": sum(own_rows(parameter).numel() for parameter in base),
        "adapters": sum(own_rows(parameter).numel() for parameter in adapters.values()),
        "initial": adapters.keys() == alone.keys() and all(torch.equal(adapters[name], alone[name]) for name in alone),
    }
    most_layers = 0

    def look(*_: Any) -> None:
        nonlocal most_layers
        most_layers = max(most_layers, sum(whole_bytes(layer) > 0 for layer in repeated_layers(model)))

    for part in model.modules():  # within layers, too: that is where the most is gathered
        part.register_forward_hook(look)
        part.register_full_backward_hook(look)
    rows = [TrainingRow([1, 2, 3 + n % 2], [4, 5 + n], 1.0 - n % 3, True, [-3.0, -3.0]) for n in range(7)]
    objective = Objective(clipped, "token_mean", 2, 1.0, 0.1, KL_ESTIMATORS["k3"], WithoutAdapter(model))
    accumulate(model, rows, objective, token_budget=5, pad_id=0, shared_prefix=False, world=world)
    AdaptersOnShards(model, world).reduce_gradients()
    found |= {
        "gathered_at_rest": sum(whole_bytes(part) for part in model.modules() if isinstance(part, FSDPModule)),
        "most_layers": most_layers,
        "base_gradients": sum(parameter.grad is not None for parameter in base),
        "gradient": sum(float(parameter.grad.abs().sum()) for parameter in adapters.values() if parameter.grad is not None),
        "dummies": getattr(lock_step_of(model), "dummies", None),
    }
    (Path(out) / f"{world.rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
