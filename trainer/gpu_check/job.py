"""Runs the checks, each in a process of its own, and gathers what they found. Imports no torch."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

CHECK_S = 300.0
"""Most seconds of one check."""
LOG_CHARS = 4000
"""How many characters of a broken check's output, counted from its end, go into the report."""

Outcome = Literal["holds", "broken", "not tested"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    claim: str
    outcome: Outcome
    seconds: float
    figures: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    """Of what is broken or was not tested."""
    log: str = ""
    """The end of what a broken check wrote."""


def run_checks(names: Sequence[str], gpus: int, device: str = "cuda", limit_s: float = CHECK_S) -> Iterator[Finding]:
    """Yield the result of each check in `names`, in order.

    Args:
        names: names in `checks.CHECKS`.
        gpus: number of GPUs that torch sees on this machine.
        device: device to run on.
        limit_s: most seconds of one check.
    """
    from verigym.trainer.gpu_check.checks import CHECKS

    for name in names:
        check = CHECKS[name]
        lacking = [package for package in check.packages if importlib.util.find_spec(package) is None]
        if lacking:
            yield Finding(name, check.claim, "not tested", 0.0, why=f"not installed: {', '.join(lacking)}")
        elif device != "cpu" and gpus < check.gpus:
            yield Finding(name, check.claim, "not tested", 0.0, why=f"{check.gpus} GPUs are needed, and there are {gpus}")
        else:
            yield _found(name, check.claim, device, limit_s)


def _found(name: str, claim: str, device: str, limit_s: float) -> Finding:
    folder = tempfile.mkdtemp(prefix=f"verigym-gpu-check-{name}-")
    command = [sys.executable, "-m", "verigym.trainer.gpu_check.child", "check", name, folder, device]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit_s)
        out, log, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        out, log, code = "", str(late.stderr or ""), None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - start
    said = _last_document(out)
    if "figures" in said:
        return Finding(name, claim, "holds", seconds, figures=said["figures"])
    ended = f"it took longer than {limit_s:g} s" if code is None else f"its process ended with exit code {code}"
    return Finding(name, claim, "broken", seconds, why=said.get("broken", ended), log=(out + log)[-LOG_CHARS:])


def _last_document(out: str) -> dict[str, Any]:
    try:
        said = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def machine() -> dict[str, Any]:
    """Return the report's description of the machine: device names, memory and versions, and nothing about its user.

    Another process asks torch for this, so that this process holds no memory on a GPU.
    """
    code = (
        "import json, torch; p = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None; "
        "print(json.dumps({'gpu': p and p.name, 'gpu_memory_gb': p and p.total_memory / 1e9, "
        "'compute_capability': p and [p.major, p.minor], 'gpus': torch.cuda.device_count(), "
        "'torch': torch.__version__, 'cuda': torch.version.cuda}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    about = {"python": platform.python_version(), "system": platform.platform()}
    return {**about, **_last_document(done.stdout)}
