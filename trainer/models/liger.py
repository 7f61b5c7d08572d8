"""Liger's fused GPU kernels (arXiv 2410.10989)."""

from __future__ import annotations

from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.trainer.models.optional import need

LIGER = {name: f"apply_liger_kernel_to_{name}" for name in ("llama", "mistral", "qwen2", "qwen3")}
"""Liger's functions that patch a model, by `model_type`."""


def refuse_liger_without_cuda(device: torch.device) -> None:
    """Check that `device` can run Liger's kernels.

    Raises:
        UsageError: the device is not CUDA.
    """
    if device.type != "cuda":
        raise UsageError(f"liger: true needs device cuda, and this run is on {device.type}; leave liger out")


def use_liger(model: Any, device: torch.device) -> None:
    """Replace a model's RMS norms, rotary positions and gated MLPs by Liger's kernels; the weights do not change.

    Liger's loss is not used, because verigym computes log-probabilities in chunks itself (`trainer/logprobs/chunked.py`).
    Rotary positions are replaced in transformers' module, so the change affects every model of this type in the process. Native
    decoding (`trainer/engines/native/llama_step.py`) uses the patched norms, but has its own versions of the other layers,
    which are checked against the patched model.

    Args:
        model: a transformers causal language model, with or without adapters; changed in place.
        device: device of the model.

    Raises:
        UsageError: there is no CUDA, the package is missing, or this type of model is not in `LIGER`.
    """
    refuse_liger_without_cuda(device)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    kind = base.config.model_type
    if kind not in LIGER:
        raise UsageError(f"liger: its kernels are put into {', '.join(LIGER)} here, and this model is {kind}; leave liger out")
    kernels = need("liger_kernel.transformers", "liger: true")
    apply = getattr(kernels, LIGER[kind])
    apply(rope=True, cross_entropy=False, fused_linear_cross_entropy=False, rms_norm=True, swiglu=True, model=base)
