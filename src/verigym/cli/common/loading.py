"""How commands import torch and transformers, which takes seconds."""

from __future__ import annotations

import atexit
import gc
import sys

from verigym.envs.openmp import bound_spinning


def load_torch(quiet: bool = False) -> None:
    """Import what every command that trains needs of torch and transformers, and say so on standard error.

    A million objects are made, and none of them is garbage: without the passes of the garbage collector that come while they
    are made, and without the one at the end of the process, a command spends a third less processor time on loading.

    Args:
        quiet: print nothing; set in all of torchrun's processes except the first.

    Raises:
        ImportError: a package is not installed; the command line says how to install it.
    """
    bound_spinning()
    if not quiet:
        print("loading torch and transformers", file=sys.stderr, flush=True)
    collecting = gc.isenabled()
    gc.disable()
    try:
        import torch.distributed.fsdp  # noqa: F401
        import transformers.modeling_layers  # noqa: F401
    finally:
        if collecting:
            gc.enable()
    atexit.register(gc.freeze)
