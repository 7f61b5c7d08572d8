"""How a folder was made: the command line, versions and hashes of the inputs of each start, in `run.json`."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verigym.envs.extras import installed

PACKAGES = ("verigym", "torch", "transformers", "tokenizers", "numpy", "pydantic")
"""Packages that decide numbers."""
NAME = "run.json"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide numbers, where they are installed."""
    return installed(PACKAGES)


def command_line() -> str:
    """Return how this process was started, as a shell takes it."""
    return shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]])


def record_start(output: Path, made: Mapping[str, Any], inputs: Mapping[str, str], done: int = 0) -> dict[str, Any]:
    """Add a start to `run.json`, and return it: options, versions, command line and input hashes.

    Args:
        output: the folder that is written to.
        made: what decides what is computed, as JSON.
        inputs: hashes of what is read, by name.
        done: finished steps that it goes on from.
    """
    start = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command_line(),
        "from_step": done,
        "versions": versions(),
        "inputs": dict(inputs),
        "made_with": dict(made),
    }
    path, temporary = output / NAME, output / f".{NAME}"
    temporary.write_text(json.dumps({"starts": [*starts(output), start]}, indent=1), encoding="utf-8")
    os.replace(temporary, path)
    return start


def starts(output: Path) -> list[dict[str, Any]]:
    """Return the starts that a folder has seen, the first one first."""
    try:
        found: list[dict[str, Any]] = json.loads((output / NAME).read_text(encoding="utf-8"))["starts"]
    except (OSError, ValueError, KeyError):
        return []
    return found
