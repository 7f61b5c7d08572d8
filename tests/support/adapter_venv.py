"""Real runs of the adapters: a trainer or evaluator in a virtual environment of its own, for they contradict each other.

VERIGYM_TEST_ADAPTERS=1 asks for them, as `make test-adapters` does. VERIGYM_ADAPTER_VENVS names the folder that keeps the
environments, one a peer; by default they are made anew for each test run.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from needs import lack, require

from verigym.adapters.peers import PEERS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/adapters/real"
CONSTRAINTS = ROOT / "constraints.txt"
READY = ".verigym-ready"
INSTALL_S = 1800.0


@cache
def folder() -> Path:
    """Return where the environments are kept."""
    if kept := os.environ.get("VERIGYM_ADAPTER_VENVS"):
        return Path(kept)
    made = tempfile.mkdtemp(prefix="verigym-adapters-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def real_run(
    peer: str,
    *arguments: str,
    also: Sequence[str] = (),
    without_dependencies: Sequence[str] = (),
    constraints: bool = True,
    python: str = sys.executable,
    timeout_s: float = 600.0,
) -> Any:
    """Run tests/adapters/real/PEER.py with its peer installed, and return what its last line says, which is JSON.

    Skips where real runs are not asked for, and where the packages cannot be had.

    Args:
        peer: of `PEERS`; its package is installed at the version tried.
        arguments: of the script.
        also: requirements beside it.
        without_dependencies: requirements whose own dependencies are left out; if the peer is among them it is not installed
            otherwise.
        constraints: whether this checkout's pins hold, torch's build for CPUs among them.
        python: that makes the environment, for a peer that needs another version.
        timeout_s: wall time of the script.
    """
    require("adapters")
    python = str(_environment(peer, tuple(also), tuple(without_dependencies), constraints, python))
    with tempfile.TemporaryDirectory(prefix=f"verigym-{peer}-") as here:
        done = subprocess.run(
            [python, "-P", str(SCRIPTS / f"{peer}.py"), *arguments],  # -P, or the script is what it imports
            cwd=here,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests/support")]),
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "HF_HOME": here,
                "TOKENIZERS_PARALLELISM": "false",
            },
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@cache
def _environment(
    peer: str, also: tuple[str, ...], without_dependencies: tuple[str, ...], constraints: bool, maker: str
) -> Path:
    """Return the Python of a peer's environment, which is made where it is not there or holds something else."""
    pinned = f"{PEERS[peer].package}=={PEERS[peer].tried}"
    alone = any(one.partition("=")[0].partition("[")[0] == PEERS[peer].package for one in without_dependencies)
    wanted = [*([] if alone else [pinned]), *also]
    here = folder() / peer
    python, ready = here / "bin/python", here / READY
    listed = "\n".join([*wanted, *without_dependencies])
    if ready.is_file() and ready.read_text() == listed:
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    limits = ["--constraint", str(CONSTRAINTS)] if constraints else []
    steps = [
        [maker, "-m", "venv", str(here)],
        [*pip, *limits, "--editable", str(ROOT), *wanted],
        *([[*pip, "--no-deps", *without_dependencies]] if without_dependencies else []),
    ]
    for step in steps:
        try:
            subprocess.run(step, check=True, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.CalledProcessError as error:
            why = error.stderr.strip().splitlines()[-1:] or ["pip failed"]
            lack("adapters", f"{peer} cannot be installed: {why[0][:300]}")
    ready.write_text(listed)
    return python
