"""The process that runs one check: `python -m verigym.trainer.gpu_check.child check NAME FOLDER DEVICE`.

The last line of standard output is JSON: `{"figures": {...}}`, or `{"broken": "..."}`. With the arguments
`run MODEL OUTPUT DEVICE`, which a check passes under torchrun, the process does the short training of `runs.run`.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    """Run the job that `arguments` describe, and return the exit code."""
    if arguments[0] == "run":
        from verigym.trainer.gpu_check.runs import run

        run(Path(arguments[1]), Path(arguments[2]), device=arguments[3], cuda_graphs=False)
        return 0
    from verigym.trainer.gpu_check.checks import CHECKS, Broken

    _, name, folder, device = arguments
    said: dict[str, Any]
    try:
        said = {"figures": CHECKS[name].find(Path(folder), device)}
    except Broken as broken:
        said = {"broken": str(broken)}
    except Exception as error:
        traceback.print_exc()
        said = {"broken": f"{type(error).__name__}: {error}"}
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
