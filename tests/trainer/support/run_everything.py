"""A training run that is killed and started again until it ends: `run_everything.py CONFIG.json MOMENTS`.

MOMENTS is a JSON list of {"steps": 3, "in_checkpoint": true, "delay_s": 0.002}. So many lines of steps must be in
metrics.jsonl, then, where asked for, a checkpoint must be being written, and so much later the run's process kills itself with
SIGKILL. Each try is a process of its own, forked from one that has only imported what it needs. After the last one the run goes
on to its end. The exit status of every process is printed as a JSON list.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


def die(output: Path, steps: int, in_checkpoint: bool, delay_s: float) -> None:
    """Wait for the moment and kill this process."""
    log = output / "metrics.jsonl"
    while steps and not (log.exists() and log.read_text().count('"train"') >= steps):
        time.sleep(0.001)
    while in_checkpoint and not any((output / "checkpoints").glob(".partial-*")):
        time.sleep(0.0002)
    time.sleep(delay_s)
    os.kill(os.getpid(), signal.SIGKILL)


def attempt(config: dict[str, Any], moment: dict[str, Any] | None) -> int:
    """Run in a forked process, and return how it ended: 0, the number of an exit, or minus that of a signal."""
    child = os.fork()
    if not child:
        try:
            if moment:
                threading.Thread(target=die, args=(Path(config["output"]),), kwargs=moment, daemon=True).start()
            train(build_config(config, "test"), ENVIRONMENTS)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# The graders' processes import this file too, and need none of it.
if __name__ == "__main__":
    import peft  # noqa: F401
    import torch
    from parts import ENVIRONMENTS

    from verigym.trainer.config.run import build_config
    from verigym.trainer.loop import train

    torch.set_num_threads(1)
    settings = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([attempt(settings, moment) for moment in [*json.loads(sys.argv[2]), None]]))
