"""`verigym train` with a fault at a step: `run_with_fault.py FAULT STEP CONFIG.json`. Once STEP steps are logged, it begins.

`full`: no file may grow beyond 1,000 bytes, as on a full disk. `clock`: the wall clock jumps to and fro by days.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any


def full() -> None:
    """Let no write succeed that makes a file larger than 1,000 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def clock() -> None:
    """Let each look at the wall clock see another day."""
    real, looks = time.time, [0]

    def jumping() -> float:
        looks[0] += 1
        return real() + 86_400 * (looks[0] % 3 - 1)

    time.time = jumping


def begin_at(fault: str, step: int) -> None:
    """Let the fault begin once the step is logged."""
    from verigym.trainer.monitoring.logs import RunLog

    real = RunLog.metrics

    def logged(self: RunLog, now: int, kind: str, *more: Any, **named: Any) -> Any:
        row = real(self, now, kind, *more, **named)  # type: ignore[arg-type]
        if (now, kind) == (step, "train"):
            {"full": full, "clock": clock}[fault]()
        return row

    RunLog.metrics = logged  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    from verigym.cli import main

    name, at, config = sys.argv[1:]
    begin_at(name, int(at))
    sys.exit(main(["train", "--config", config]))
