"""The policy and its tokenizer: where they come from and which device holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from verigym.envs.errors import UsageError
from verigym.envs.weights import missing_folder
from verigym.trainer.model_path import model_path


def pick_device(name: str) -> torch.device:
    """Return the device of that name; `auto` takes CUDA where there is one.

    Raises:
        UsageError: CUDA was asked for and is absent.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device: cuda was asked for, but torch sees no CUDA device here; use device=cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def load_model(path: str | Path, device: torch.device, *, auto: Any = None, **how: Any) -> tuple[Any, Any]:
    """Load a model and its tokenizer, from a local directory or the hub.

    Args:
        path: the directory, that of a checkpoint, or the hub id.
        device: where the model goes.
        auto: transformers' class that loads it; AutoModelForCausalLM where None.
        **how: options of transformers' `from_pretrained`; the dtype is fp32 where none is named.

    Raises:
        UsageError: it is not there or cannot be loaded.
    """
    name = path = model_path(path)
    if missing := missing_folder(name):
        raise UsageError(f"model: {missing}")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        kind = auto or transformers.AutoModelForCausalLM
        model = kind.from_pretrained(path, **{"dtype": torch.float32, **how}, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        line = " ".join(str(error).split())[:300]
        is_folder = Path(name).is_dir()
        what = (
            f"the directory {name!r} cannot be loaded"
            if is_folder
            else f"{name!r} is neither a directory here nor readable from the hub"
        )
        raise UsageError(f"model: {what}: {line}") from None
    return model.to(device), tokenizer
