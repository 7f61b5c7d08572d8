"""Training runs on pretended CUDA: `run_pretending.py CONFIGS.json`, a list of runs' settings.

Prints JSON: for each run what it logged, if anything, or the error that ended it. `mix`, if a run has it, names a function of
the trainer (`module:function`) whose result is moved to the CPU: a device mix-up put in by hand.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

LOGGER = logging.getLogger("verigym.trainer")
LOGGER.setLevel(logging.INFO)  # a fast path that fails its trial is told there


def back_on_cpu(value: Any) -> Any:
    return value.to("cpu") if isinstance(value, torch.Tensor) else value


@contextmanager
def mixed_up(place: str | None) -> Iterator[None]:
    """Let a function return tensors on the CPU."""
    if place is None:
        yield
        return
    module_name, _, path = place.partition(":")
    *owner, name = path.split(".")
    holder: Any = importlib.import_module(f"verigym.trainer.{module_name}")
    for part in owner:
        holder = getattr(holder, part)
    real = getattr(holder, name)

    def moved(*args: Any, **kwargs: Any) -> Any:
        return tree_map(back_on_cpu, real(*args, **kwargs))

    setattr(holder, name, moved)
    try:
        yield
    finally:
        setattr(holder, name, real)


def outcome(settings: dict[str, Any]) -> dict[str, Any]:
    place = settings.pop("mix", None)
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    try:
        with mixed_up(place):
            train(build_config(settings, "test"), ENVIRONMENTS)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-1500:]}
    finally:
        LOGGER.removeHandler(handler)
    return {"said": said} if said else {}


if __name__ == "__main__":
    import peft  # noqa: F401 - looks at the GPU when it is imported
    import pretend_cuda
    from letters import LettersEnvironment

    torch.set_num_threads(1)
    pretend_cuda.install()
    from verigym.trainer.config.run import build_config
    from verigym.trainer.logprobs import chunked, forward
    from verigym.trainer.loop import train

    ENVIRONMENTS = {"letters": LettersEnvironment()}
    # The CPU's, so that sums are made in the same order.
    chunked.CHUNK_BYTES["cuda"] = chunked.CHUNK_BYTES["cpu"]
    forward.PASS_TOKENS["cuda"] = forward.PASS_TOKENS["cpu"]
    print(json.dumps([outcome(settings) for settings in json.loads(Path(sys.argv[1]).read_text())]))
