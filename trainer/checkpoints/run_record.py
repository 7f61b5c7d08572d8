"""Record of a run in `run.json`.

It holds the run's numbers of threads, and of each start the command line, versions, settings and hashes of inputs.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
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
    _write(output, {**_read(output), "starts": [*starts(output), start]})
    return start


def starts(output: Path) -> list[dict[str, Any]]:
    """Return the starts that `run.json` in the folder `output` records, oldest first."""
    recorded: list[dict[str, Any]] = _read(output).get("starts", [])
    return recorded


def record_threads(output: Path, label: str, threads: Sequence[int]) -> None:
    """Record the numbers of threads with which the model `label` is sampled and trained in the run in `output`."""
    record = _read(output)
    _write(output, {**record, "threads": {**record.get("threads", {}), label: list(threads)}})


def recorded_threads(output: Path, label: str) -> list[int] | None:
    """Return what `record_threads` recorded; None if it recorded nothing of the model `label`."""
    numbers: list[int] | None = _read(output).get("threads", {}).get(label)
    return numbers


def _read(output: Path) -> dict[str, Any]:
    try:
        record = json.loads((output / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write(output: Path, record: Mapping[str, Any]) -> None:
    temporary = output / f".{NAME}"
    temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
    os.replace(temporary, output / NAME)
