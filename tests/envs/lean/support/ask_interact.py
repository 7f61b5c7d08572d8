"""Asks the real lean-interact through our screen: `ask_interact.py REPL_FOLDER`, and prints one JSON object."""

from __future__ import annotations

import json
import sys
import time

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.backends.interact import InteractOptions, InteractScreen
from verigym.envs.lean.task import LeanReference
from verigym.envs.lean.toolchain import Toolchain

TASK = LeanReference(name="target", statement="theorem target : 1 + 1 = 2")
IMPORTS = TASK.model_copy(update={"header": "import Something"})
ABSENT = TASK.model_copy(update={"header": "import Absent"})


def main(folder: str) -> None:
    """Ask everything in turn of one screen, so that each answer also shows that the one before did no harm."""
    toolchain = Toolchain("/bin/sh", "4.28.0", "")
    screen = InteractScreen(toolchain, InteractOptions(unsandboxed=True, local_repl_path=folder, timeout_s=2.0, uses=5))
    asked = [
        ("right", TASK, "rfl"),
        ("right after a header", IMPORTS, "rfl"),
        ("wrong", TASK, "by exact wrong"),
        ("placeholder", TASK, "by sorry"),
        ("hangs", TASK, "by hang"),
        ("right after it hung", TASK, "rfl"),
        ("dies", TASK, "by die"),
        ("wrong after it died", TASK, "by exact wrong"),
        ("leaves once it has answered", TASK, "by leave"),
        ("right after it left", TASK, "rfl"),
        ("wrong after that", TASK, "by exact wrong"),
        ("no JSON", TASK, "by babble"),
        ("placeholder after that", TASK, "by sorry"),
        ("the header does not load", ABSENT, "by exact wrong"),
    ]
    found: dict[str, str | None] = {}
    begun = time.monotonic()
    for name, task, proof in asked:
        found[name] = screen.reject(task, proof)
    screen.close()
    broken = InteractScreen(toolchain, InteractOptions(unsandboxed=True, local_repl_path=folder + "/absent"))
    try:
        failure = f"it started: {broken.reject(TASK, 'rfl')}"
    except EnvironmentFailure as error:
        failure = f"{error.kind}: {error.message}"
    print(json.dumps({"found": found, "seconds": time.monotonic() - begun, "failure": failure}))


if __name__ == "__main__":
    main(sys.argv[1])
