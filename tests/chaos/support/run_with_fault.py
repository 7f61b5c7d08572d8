"""`verigym train` with a fault at a step: `run_with_fault.py FAULT STEP CONFIG.json`. Once STEP steps are logged, it begins.

`full`: no file may grow beyond 1,000 bytes, as on a full disk. `clock`: the wall clock jumps to and fro by days.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path


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


def begin(fault: str, step: int, output: Path) -> None:
    """Wait until the step is logged, and let the fault begin."""
    path = output / "metrics.jsonl"
    while not path.exists() or path.read_text(encoding="utf-8").count('"kind": "train"') < step:
        time.sleep(0.002)
    {"full": full, "clock": clock}[fault]()


if __name__ == "__main__":
    from verigym.cli import main

    name, at, config = sys.argv[1:]
    folder = Path(json.loads(Path(config).read_text(encoding="utf-8"))["output"])
    threading.Thread(target=begin, args=(name, int(at), folder), daemon=True).start()
    sys.exit(main(["train", "--config", config]))
