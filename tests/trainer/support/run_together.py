"""Training runs in float64, one after the other, for torchrun: `run_together.py CONFIG.json...`.

`SIGNAL=SIGKILL:1:3` has the process of rank 1 send itself that signal in the update after 3 steps, in its first life. After
SIGSTOP another process lets it go on 5 s later.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from chats import ChatEnvironment
from exact import float64
from letters import LettersEnvironment

from verigym.envs.contract.base import Environment
from verigym.trainer.config.run import build_config
from verigym.trainer.distributed import full_shards
from verigym.trainer.distributed.torchrun import launched_rank
from verigym.trainer.learner import critic, learner
from verigym.trainer.loop import train
from verigym.trainer.models import lora
from verigym.trainer.models.loading import load_model

ENVIRONMENTS: dict[str, Environment] = {"letters": LettersEnvironment(), "chat": ChatEnvironment()}

loading = {"exactly": True}
"""False for the runs in folders that are called `plain`."""


def load_exactly(path: str | Path, device: torch.device, **how: Any) -> tuple[Any, Any]:
    """Take the place of `load_model`: nothing is rounded to float32, so that the order of sums hardly shows."""
    if not loading["exactly"]:
        return load_model(path, device, **how)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    return float64(transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float64)).to(device), tokenizer


make_empty = full_shards.empty_model


def empty_exactly(path: str, dtype: torch.dtype) -> Any:
    """Take the place of `empty_model`, in the same way."""
    return float64(make_empty(path, torch.float64)) if loading["exactly"] else make_empty(path, dtype)


def compute_exactly(replace: Callable[[Any, str, Any], None]) -> None:
    replace(full_shards, "empty_model", empty_exactly)
    for module in (learner, lora, critic):
        replace(module, "load_model", load_exactly)


def run_all(*configs: str | Path) -> None:
    for config in configs:
        loading["exactly"] = Path(config).parent.name != "plain"
        train(build_config(json.loads(Path(config).read_text()), str(config)), ENVIRONMENTS)


def signal_after(steps: int, number: int) -> None:
    """Have this process send itself a signal in its update after so many steps."""
    update = learner.Learner.update

    def signalled(self: Any, step: int, groups: Any) -> Any:
        if step == steps:
            if number == signal.SIGSTOP:
                subprocess.Popen(["sh", "-c", f"sleep 5; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), number)
        return update(self, step, groups)

    learner.Learner.update = signalled  # type: ignore[method-assign]


if __name__ == "__main__":
    from cli_letters import main  # it registers the environment, which a test that imports this file does not want

    compute_exactly(setattr)
    name, rank, steps = os.environ.get("SIGNAL", "SIGINT:-1:0").split(":")
    if int(rank) == launched_rank() and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        signal_after(int(steps), getattr(signal, name))
    if name == "SIGINT" and int(rank) >= 0:
        sys.exit(main(["train", "--config", sys.argv[1]]))
    run_all(*sys.argv[1:])
