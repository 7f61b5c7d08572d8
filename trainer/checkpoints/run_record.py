"""Record of a run's starts in `run.json`: command line, versions, settings and input hashes of each."""

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
"""Packages whose versions can change results."""
NAME = "run.json"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that can change results, and the build of torch."""
    torch = sys.modules.get("torch")
    return installed(PACKAGES) | ({"torch": str(torch.__version__)} if torch is not None else {})


def command_line() -> str:
    """Return the command line of this process, quoted for a shell."""
    return shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]])


def record_start(output: Path, made: Mapping[str, Any], inputs: Mapping[str, str], done: int = 0) -> dict[str, Any]:
    """Append an entry for this start of the run to `run.json`, and return the entry.

    Args:
        output: the run's folder.
        made: the settings and grader ids that change the results, as JSON data; see `store.made_with`.
        inputs: hashes of the inputs, by name.
        done: number of steps already finished when this start begins.
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
    """Return the starts that `run.json` in the folder `output` records, oldest first."""
    try:
        recorded: list[dict[str, Any]] = json.loads((output / NAME).read_text(encoding="utf-8"))["starts"]
    except (OSError, ValueError, KeyError):
        return []
    return recorded
