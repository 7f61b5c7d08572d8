"""Loads models and tokenizers, and picks the device."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from verigym.envs.contract.errors import UsageError
from verigym.envs.hub import hub_or_cache
from verigym.trainer.models.path import require_model


def pick_device(name: str) -> torch.device:
    """Return the device `name`; `auto` is CUDA if it is available, else the CPU.

    Raises:
        UsageError: CUDA is not available and `name` is `cuda`.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device: cuda was asked for, but torch sees no CUDA device here; use device=cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def load_model(path: str | Path, device: torch.device, *, auto: Any = None, **how: Any) -> tuple[Any, Any]:
    """Load a model and its tokenizer, from a local directory or the hub.

    Args:
        path: model directory, checkpoint directory, or hub id.
        device: device of the model.
        auto: transformers' auto class; None for AutoModelForCausalLM.
        **how: options of `from_pretrained`; the dtype defaults to fp32.

    Raises:
        UsageError: the model does not exist or cannot be loaded.
    """
    path = require_model(path)
    with hub_or_cache(f"model: {path!r}") if not Path(path).is_dir() else nullcontext(""):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
            kind = auto or transformers.AutoModelForCausalLM
            model = kind.from_pretrained(path, **{"dtype": torch.float32, **how}, trust_remote_code=False)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:  # the last: a cut file
            what = "the directory" if Path(path).is_dir() else "the hub's"
            raise UsageError(f"model: {what} {path!r} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    return model.to(device), tokenizer


def positions_of(model: Any) -> int | None:
    """Return the largest number of tokens that `model` can process in a row; None if its configuration does not say."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None
