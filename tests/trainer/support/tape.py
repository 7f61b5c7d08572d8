"""What a CUDA graph does, on a CPU: the operations of a computation, run again on the same memory, without its Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Tape(TorchDispatchMode):
    """Operators with their arguments and results, as they were when recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.entries.append((func, args, kwargs or {}, [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]))
        return out

    def play(self) -> None:
        for func, args, kwargs, kept in self.entries:
            found = [leaf for leaf in tree_leaves(func(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
            for old, new in zip(kept, found, strict=True):
                if old.data_ptr() != new.data_ptr():  # neither a view nor written in place
                    old.copy_(new)


def record(run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
    """See `verigym.trainer.engines.native.cuda_graphs.Record`."""
    with Tape() as tape:
        result = run()
    return tape.play, result
