"""Builds AdamW from the settings, computes the learning rate of a step, and updates the weights."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch

from verigym.trainer.config.step_settings import OptimizerSettings
from verigym.trainer.models.optional import need

logger = logging.getLogger("verigym.trainer")


def build_optimizer(parameters: Iterable[torch.nn.Parameter], config: OptimizerSettings) -> torch.optim.Optimizer:
    """Return AdamW over the trainable parameters, with moments in fp32 or in 8 bits.

    In 8 bits (arXiv 2110.02861) each number of a moment is one byte, an index into a table of 256 values, with one fp32 scale
    per block of 256. Tensors of fewer than 4,096 numbers keep fp32 moments. The state saves and loads exactly.

    Args:
        parameters: the policy's parameters; frozen ones are ignored.
        config: settings of a run or a stage.

    Raises:
        UsageError: bitsandbytes is needed and not installed.
    """
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    kind: type[torch.optim.Optimizer] = torch.optim.AdamW
    if config.optimizer == "adamw_8bit":
        kind = need("bitsandbytes", "optimizer: adamw_8bit").optim.AdamW8bit
    options: dict[str, Any] = {"lr": config.learning_rate, "betas": config.adam_betas, "weight_decay": config.weight_decay}
    if config.optimizer == "adamw" and all(_can_be_fused(parameter) for parameter in trainable):
        options["fused"] = True  # one pass over memory; a checkpoint that was made without it continues without it
    optimizer = kind(trainable, **options)
    if options.get("fused"):
        optimizer.register_step_pre_hook(_lay_out_gradients)
    return optimizer


def _can_be_fused(parameter: torch.Tensor) -> bool:
    return parameter.device.type in ("cpu", "cuda") and parameter.is_floating_point()


def _lay_out_gradients(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    # The fused CPU kernel assumes that a gradient is laid out as its parameter; with another layout its result is wrong.
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.stride() != parameter.stride():
                parameter.grad = torch.empty_like(parameter).copy_(parameter.grad)


def learning_rate(step: int, *, peak: float, warmup: int, total: int, schedule: str) -> float:
    """Return the learning rate of `step`, counted from 0: it rises linearly over `warmup` steps to `peak`.

    After that, `schedule` keeps it constant or lets it fall, linearly or as a cosine, until step `total`.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * SCHEDULES[schedule]((step - warmup) / max(1, total - warmup))


SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: float(0.5 * (1 + torch.cos(torch.tensor(done * torch.pi, dtype=torch.float64)))),
}
"""Schedules by name. The argument of a schedule is how much of the time after the warm-up has passed, from 0 to 1; its result
is the factor by which the peak learning rate is multiplied."""


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups to `rate`."""
    for parameters in optimizer.param_groups:
        parameters["lr"] = rate


def clipped_step(optimizer: torch.optim.Optimizer, rate: float, max_norm: float, step: int, model: str = "") -> float:
    """Clip the gradients, update the weights if the gradient is finite, and return the gradient's norm before clipping.

    Args:
        optimizer: holds the parameters with their gradients.
        rate: learning rate.
        max_norm: largest norm of the gradient; a larger one is scaled down.
        step: as in `step_if_finite`.
        model: as in `step_if_finite`.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    set_learning_rate(optimizer, rate)
    step_if_finite(optimizer, norm, step, model)
    return float(norm)


def step_if_finite(optimizer: torch.optim.Optimizer, norm: torch.Tensor, step: int, model: str = "") -> None:
    """Update the weights. If the gradient's norm is not finite, skip the update with a warning.

    Args:
        optimizer: holds the parameters with their clipped gradients.
        norm: norm of the gradient before it was clipped, a scalar.
        step: counted from 0.
        model: name of the model for the warning; empty for the policy.
    """
    if torch.isfinite(norm):
        optimizer.step()
    else:
        logger.warning(
            "step %d: the %sgradient is not finite; this update is left out", step + 1, f"{model}'s " if model else ""
        )
