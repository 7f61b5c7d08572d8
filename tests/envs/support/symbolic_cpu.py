"""The CPU time of the processes that compare expressions, which says what a comparison costs on a busy machine too."""

from __future__ import annotations

import os
from pathlib import Path

from verigym.envs.isolated import client


def workers_cpu_s() -> float:
    """Return the CPU seconds of the workers of trees and of all their children that have ended."""
    ticks = 0
    for worker in client._pools["trees"].all:
        fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
