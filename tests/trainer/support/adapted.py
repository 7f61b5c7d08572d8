"""Settings of adapters, and models that have some, for the tests of LoRA."""

from __future__ import annotations

from typing import Any

import torch

from verigym.trainer.config.model import AdapterFields
from verigym.trainer.models.lora import add_adapter
from verigym.trainer.rng import keyed_uniforms

TEXTS = [((5, 6, 7), (20, 21, 22)), ((5, 6, 7), (23,)), ((8, 9), (30, 31)), ((8, 9), (33, 34, 35, 36)), ((8, 9), (40, 41))]
"""Prompts with completions, in tokens."""


def settings(**fields: Any) -> AdapterFields:
    return AdapterFields(**{"lora_rank": 4, "lora_alpha": 8.0, **fields})


def moved(policy: Any, size: float = 0.2) -> Any:
    """Give B values, as training would; in place."""
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if ".lora_B." in name:
                parameter.copy_(size * (2 * keyed_uniforms(parameter.numel(), "B", name) - 1).reshape(parameter.shape))
    return policy


def adapted(model: Any, **fields: Any) -> Any:
    """Return the model with adapters that change what it says. The model itself gets the adapters; give a copy."""
    return moved(add_adapter(model, settings(**fields), seed=3))


def frozen_bytes(policy: Any) -> dict[str, bytes]:
    """Every weight but the adapters'."""
    parameters = {name: p.detach() for name, p in policy.named_parameters() if ".lora_" not in name}
    return {name: p.view(torch.uint8).numpy().tobytes() for name, p in parameters.items()}
