"""The policy and its tokenizer: where they come from and which device holds them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers

from verigym.envs.contract.errors import UsageError
from verigym.envs.hub import hub_or_cache
from verigym.trainer.models.path import require_model


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
    path = require_model(path)
    with hub_or_cache(f"model: {path!r}") if not Path(path).is_dir() else nullcontext(""):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
            kind = auto or transformers.AutoModelForCausalLM
            model = kind.from_pretrained(path, **{"dtype": torch.float32, **how}, trust_remote_code=False)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            what = "the directory" if Path(path).is_dir() else "the hub's"
            raise UsageError(f"model: {what} {path!r} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    return model.to(device), tokenizer
