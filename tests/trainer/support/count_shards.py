"""Counts the bytes of a fully sharded model in each process of torchrun: `count_shards.py MODEL OUT`; writes `OUT/RANK.json`.

A policy and a reference do one update as a run does it; the process of rank 1 has fewer rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed.fsdp import FSDPModule

from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.fsdp import clip_gradients
from verigym.trainer.distributed.full_shards import load_sharded, lock_step_of, repeated_layers
from verigym.trainer.distributed.sharded_checkpoint import own_rows
from verigym.trainer.distributed.world import World
from verigym.trainer.learner.update import Objective, accumulate
from verigym.trainer.losses.kl import KL_ESTIMATORS
from verigym.trainer.losses.token_level import clipped


def whole_bytes(module: Any) -> int:
    """Return the bytes of the module's weights that are gathered at this moment, those on their way included."""
    [group] = module._get_fsdp_state()._fsdp_param_groups
    there = 0
    for parameter in group.fsdp_params:
        if hasattr(parameter, "_unsharded_param"):
            there += parameter._unsharded_param.untyped_storage().nbytes()
    on_its_way = group._all_gather_result
    return max(there, 0 if on_its_way is None else on_its_way.all_gather_output.untyped_storage().nbytes())


def main(model_path: str, out: str) -> None:
    distributed.init_process_group("gloo")
    world = World(distributed.get_rank(), distributed.get_world_size())
    device = torch.device("cpu")
    model, _ = load_sharded(model_path, world, device, trained=True)
    reference, _ = load_sharded(model_path, world, device, trained=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    layers: list[Any] = repeated_layers(model)
    most = {"layers": 0, "gradients": 0}

    def look(*_: Any) -> None:
        gathered = [layer for module in (model, reference) for layer in repeated_layers(module) if whole_bytes(layer)]
        most["layers"] = max(most["layers"], len(gathered))
        whole = [p._unsharded_param for layer in layers for p in layer._get_fsdp_state()._fsdp_param_groups[0].fsdp_params]
        most["gradients"] = max(most["gradients"], sum(p.grad.nbytes for p in whole if p.grad is not None))

    for module in (model, reference):
        for part in module.modules():  # within layers, too: that is where the most is gathered
            part.register_forward_hook(look)
            part.register_full_backward_hook(look)
    rows = [TrainingRow([1, 2, 3 + n % 2], [4, 5 + n], 1.0 - n % 3, True, [-3.0, -3.0]) for n in range(7)]
    objective = Objective(clipped, "token_mean", 2, 1.0, 0.1, KL_ESTIMATORS["k3"], reference)
    metrics = accumulate(model, rows, objective, token_budget=5, pad_id=0, shared_prefix=False, world=world)
    norm = clip_gradients(model.parameters(), 1.0)
    gradients = sum(own_rows(parameter.grad).nbytes for parameter in model.parameters() if parameter.grad is not None)
    optimizer.step()
    kept = [own_rows(value).nbytes for state in optimizer.state.values() for value in state.values() if value.ndim]
    found = {
        "whole": sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()),
        "layer": sum(parameter.numel() * parameter.element_size() for parameter in layers[0].parameters()),
        "weights": sum(own_rows(parameter).nbytes for parameter in model.parameters()),
        "gradients": gradients,
        "moments": sum(kept),
        "gathered_at_rest": sum(whole_bytes(part) for part in model.modules() if isinstance(part, FSDPModule)),
        "most_layers": most["layers"],
        "most_layer_gradients": most["gradients"],
        "dummies": getattr(lock_step_of(model), "dummies", None),
        "norm": float(norm),
        "loss": metrics["loss"],
    }
    (Path(out) / f"{world.rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
