"""The optimizer that a run's settings name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.models.optional import need


def build_optimizer(parameters: Iterable[torch.nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """Return AdamW over the parameters that are trained, with its moments in fp32 or in 8 bits.

    In 8 bits (2110.02861) a moment is one byte a number, an index into a table of 256, with one fp32 scale for each block of
    256; tensors below 4,096 numbers keep theirs in fp32. Its state saves and loads exactly.

    Args:
        parameters: of the policy; frozen ones are left out.
        config: the run.

    Raises:
        UsageError: bitsandbytes is asked for and is absent.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    kind: type[torch.optim.Optimizer] = torch.optim.AdamW
    if config.optimizer == "adamw_8bit":
        kind = need("bitsandbytes", "optimizer: adamw_8bit").optim.AdamW8bit
    options: dict[str, Any] = {"lr": config.learning_rate, "betas": config.adam_betas, "weight_decay": config.weight_decay}
    if config.optimizer == "adamw" and all(_can_be_fused(parameter) for parameter in trained):
        options["fused"] = True  # one pass over memory; a checkpoint that was made without it goes on without it
    optimizer = kind(trained, **options)
    if options.get("fused"):
        optimizer.register_step_pre_hook(_lay_out_gradients)
    return optimizer


def _can_be_fused(parameter: torch.Tensor) -> bool:
    return parameter.device.type in ("cpu", "cuda") and parameter.is_floating_point()


def _lay_out_gradients(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    # Autograd lays gradients out as their parameters. The fused kernel of the CPU would take others for that, and be wrong.
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.stride() != parameter.stride():
                parameter.grad = torch.empty_like(parameter).copy_(parameter.grad)
