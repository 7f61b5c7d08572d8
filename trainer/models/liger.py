"""What a run asks of the GPU beyond torch: whether decoding is recorded, and Liger's kernels (arXiv 2410.10989)."""

from __future__ import annotations

from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.trainer.models.optional import need

LIGER = {name: f"apply_liger_kernel_to_{name}" for name in ("llama", "mistral", "qwen2", "qwen3")}
"""Liger's own functions, by a model's `model_type`."""


def wants_graphs(wanted: bool | None, device: torch.device) -> bool:
    """Return whether native decoding keeps to fixed shapes and records its steps.

    Args:
        wanted: `cuda_graphs`; None takes them where there is CUDA.
        device: of the policy.

    Raises:
        UsageError: they are wanted, and the device is none of CUDA's.
    """
    if wanted and device.type != "cuda":
        raise UsageError(f"cuda_graphs: true needs device cuda, and this run is on {device.type}; leave cuda_graphs out")
    return device.type == "cuda" if wanted is None else wanted


def refuse_liger_without_cuda(device: torch.device) -> None:
    """Check that Liger's kernels can run.

    Raises:
        UsageError: the device is none of CUDA's.
    """
    if device.type != "cuda":
        raise UsageError(f"liger: true needs device cuda, and this run is on {device.type}; leave liger out")


def use_liger(model: Any, device: torch.device) -> None:
    """Put Liger's RMS norm, rotary positions and gated MLP in the place of a model's own; its weights stay.

    Its loss stays out: log-probabilities are chunked here (`logprobs.py`). Rotary positions are replaced in transformers'
    module, so for every model of the kind in this process. Decoding computes layers itself (`decode_model.py`), norms
    excepted, and is tried against the model as it then is.

    Args:
        model: a transformers causal language model, with adapters or without; changed in place.
        device: where it runs.

    Raises:
        UsageError: there is no CUDA, the package is absent, or Liger has no kernels for such a model here.
    """
    refuse_liger_without_cuda(device)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    kind = base.config.model_type
    if kind not in LIGER:
        raise UsageError(f"liger: its kernels are put into {', '.join(LIGER)} here, and this model is {kind}; leave liger out")
    kernels = need("liger_kernel.transformers", "liger: true")
    apply = getattr(kernels, LIGER[kind])
    apply(rope=True, cross_entropy=False, fused_linear_cross_entropy=False, rms_norm=True, swiglu=True, model=base)
