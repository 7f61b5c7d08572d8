"""The policy's weights for engines that hold a copy: under the names of the model's checkpoints, with adapters merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion

from verigym.trainer.distributed.full_shards import lock_step_of, whole_tensor
from verigym.trainer.models.lora import merged_weights

PART_BYTES = 2**30
"""Most bytes of a file of weights, unless a single tensor is larger."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def policy_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) of each weight of `model`, named as `save_pretrained` does. The policy is not changed.

    Tied weights are yielded under each of their names. vLLM has its own copy of the output head, and updates it only if a
    weight with its name arrives. For a model with adapters, each merged weight is computed when it is yielded. The adapters are
    not merged into the base weights and taken out again, because rounding would then change the base weights at every push. All
    processes of a fully sharded model must iterate together.
    """
    if not hasattr(model, "get_base_model"):
        if lock_step_of(model) is None:
            yield from revert_weight_conversion(model, model.state_dict()).items()
            return
        for name, tensor in model.state_dict().items():
            yield name, whole_tensor(tensor)
        return
    names: dict[int, list[str]] = {}
    for name, tensor in model.get_base_model().state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    tied = {first: others for first, *others in names.values()}
    for name, tensor in merged_weights(model, whole_tensor):
        for one in (name, *tied.get(name, ())):
            yield one, tensor


def write_weights(model: Any, folder: Path, dtype: torch.dtype, part_bytes: int = PART_BYTES) -> list[Path]:
    """Write the policy's weights as safetensors files and return their paths.

    Args:
        model: the policy.
        folder: target, which is created.
        dtype: dtype of the floating-point tensors in the files.
        part_bytes: most bytes of a file.
    """
    folder.mkdir(parents=True)
    files: list[Path] = []
    part: dict[str, torch.Tensor] = {}
    held = 0

    def flush() -> None:
        files.append(folder / f"part-{len(files):05d}.safetensors")
        save_file(part, files[-1])
        part.clear()

    for name, tensor in policy_weights(model):
        kept = dtype if tensor.is_floating_point() else tensor.dtype
        # A copy, because safetensors refuses tied weights that share memory.
        own = tensor.to(device="cpu", dtype=kept, copy=True).contiguous()
        size = own.numel() * own.element_size()
        if part and held + size > part_bytes:
            flush()
            held = 0
        part[name] = own
        held += size
    flush()
    return files
