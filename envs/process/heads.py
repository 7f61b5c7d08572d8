"""The head of a process reward model: the layers `score.0` and `score.2` with a ReLU between, or a single layer `score`.

All layers are linear. Qwen2.5-Math-PRM has the two-layer head.

Legend: H hidden size, C classes (2).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PREFIX = "score."
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def new_head(hidden_size: int, classes: int = 2, *, layers: int = 2) -> torch.nn.Sequential | torch.nn.Linear:
    """Return a head from hidden size H to C classes with torch's default initialisation.

    Args:
        hidden_size: hidden size H of the decoder.
        classes: number of classes C.
        layers: number of linear layers: 2, as in Qwen2.5-Math-PRM, or 1.
    """
    import torch

    if layers == 1:
        return torch.nn.Linear(hidden_size, classes)
    return torch.nn.Sequential(
        torch.nn.Linear(hidden_size, hidden_size), torch.nn.ReLU(), torch.nn.Linear(hidden_size, classes)
    )


def read_head(find: Callable[[str], str | None], hidden_size: int) -> torch.nn.Module:
    """Read the head from a checkpoint's safetensors files and return it.

    Args:
        find: function that returns the path of one of the checkpoint's files, or None if there is no such file.
        hidden_size: hidden size H of the decoder.

    Raises:
        ValueError: the checkpoint has no safetensors files, or they hold no head of this size.
    """
    import torch
    from safetensors import safe_open

    weights: dict[str, torch.Tensor] = {}
    for path in _files(find):
        with safe_open(path, framework="pt") as file:
            weights.update({key.removeprefix(PREFIX): file.get_tensor(key) for key in file.keys() if key.startswith(PREFIX)})
    if "2.weight" in weights:
        head = new_head(hidden_size, weights["2.weight"].shape[0])
    elif "weight" in weights:
        head = new_head(hidden_size, weights["weight"].shape[0], layers=1)
        weights.setdefault("bias", torch.zeros(weights["weight"].shape[0]))
    else:
        raise ValueError("its safetensors hold no head `score.*`; it is no process reward model of this convention")
    try:
        head.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"its head does not fit: {error}") from None
    return head


def _files(find: Callable[[str], str | None]) -> list[str]:
    """Return the files that hold the checkpoint's head."""
    index = find(INDEX)
    if index is None:
        single = find(SINGLE)
        return [single] if single else []
    names = json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"]
    parts = sorted({part for key, part in names.items() if key.startswith(PREFIX)})
    return [path for path in map(find, parts) if path]
