"""Measures the speed of a device, and makes a model of half a billion parameters for checks of speed and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.gpu_check.task import settings, write_model

HALF_BILLION = {
    "hidden_size": 896,
    "layers": 24,
    "heads": 14,
    "intermediate_size": 4864,
    "vocabulary_size": 151_936,
    "max_positions": 4096,
}
"""The sizes of Qwen2.5-0.5B, with as many key heads as query heads."""


def timed(work: Callable[[], Any], repeats: int, device: torch.device) -> float:
    """Return the median seconds of `repeats` calls of `work` on the device, after one call that is not counted."""
    seconds: list[float] = []
    for _ in range(repeats + 1):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return median(seconds[1:])


def wait(device: torch.device) -> None:
    """Wait until `device` has finished all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def copy_rate(device: torch.device, size: int = 2**30) -> float:
    """Return the bytes read and written per second by a copy of `size` bytes within the device."""
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / timed(lambda: target.copy_(source), 10, device)


def matmul_rate(device: torch.device, dtype: torch.dtype, size: int = 8192) -> float:
    """Return the floating-point operations per second of a product of two square matrices with `size` rows."""
    one, two = (torch.randn(size, size, device=device, dtype=torch.float32).to(dtype) for _ in range(2))
    return 2 * size**3 / timed(lambda: one @ two, 10, device)


def half_billion(place: Path, device: str, sizes: dict[str, int] = HALF_BILLION, **more: Any) -> TrainConfig:
    """Write a model of half a billion parameters to the folder `place`, and return the settings of a bf16 run with the model.

    A step has 8 prompts, each with 8 completions of at most 256 tokens.
    """
    model = place / "model"
    if not model.is_dir():
        write_model(model, **sizes)
    fields = {"device": device, "dtype": "bf16", "prompts_per_step": 8, "group_size": 8, "max_new_tokens": 256}
    return build_config(settings(model, place / "run", **{**fields, "learning_rate": 1e-6, **more}), "gpu-check")
