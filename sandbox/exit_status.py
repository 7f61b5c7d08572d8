"""Derives a run's status from how its first process exited."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from verigym.sandbox.job import Job
from verigym.sandbox.spec import RunStatus

_MEMORY_SIGNS = (
    b"MemoryError",
    b"std::bad_alloc",
    b"heap out of memory",
    b"annot allocate",
    b"failed to map segment",  # the dynamic loader
    b"Memory allocation still failed",  # OpenBLAS
)
"""Messages of runtimes that could not allocate memory."""


def run_status(job: Job, report: Mapping[str, Any], stderr: bytes | bytearray, *, out_of_memory: bool) -> tuple[RunStatus, str]:
    """Return the status of a run that the sandbox did not kill, and a message that explains the status.

    Args:
        job: the description of the run; its limits are used.
        report: the worker's report: `exit`, `signal`, `cpu_s`, `memory_kb`.
        stderr: what the run wrote to standard error.
        out_of_memory: whether the kernel's OOM killer killed a process of the run.
    """
    limits = job.limits
    if out_of_memory:
        return RunStatus.MEMORY, f"the memory limit of {limits.memory_mb} MiB"
    if report["signal"] == signal.SIGXCPU or report["cpu_s"] >= limits.cpu_s * job.cpu_factor:
        return RunStatus.TIME, f"the CPU time limit of {limits.cpu_s:g} s"
    if report["exit"] == 0:
        return RunStatus.OK, ""
    signs = any(sign in stderr for sign in _MEMORY_SIGNS)
    if signs or report["memory_kb"] > limits.memory_mb * 1024 * 0.95:
        return RunStatus.MEMORY, f"the memory limit of {limits.memory_mb} MiB"
    if report["signal"] is not None:
        return RunStatus.RUNTIME, f"ended by {signal_name(report['signal'])}"
    return RunStatus.RUNTIME, f"exit code {report['exit']}"


def signal_name(number: int) -> str:
    """Return the name of the signal `number`, such as SIGKILL."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
