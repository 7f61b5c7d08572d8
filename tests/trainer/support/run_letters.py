"""A training run in a process of its own, to be killed: `run_letters.py CONFIG.json [KILL_AT]`.

KILL_AT is `step-N`, for the moment at which step N is logged, or a moment in the second checkpoint's writing: `tensors` (no
manifest yet), `manifest` (all written, not renamed) or `renamed` (renamed, old checkpoints not yet deleted). There the process
kills itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from at_step import signal_at
from letters import LettersEnvironment

from verigym.trainer.checkpoints import store
from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train


def kill_at(moment: str) -> None:
    """Have the process kill itself at a step, or replace a step of the checkpoint's writing by death, the second time."""
    if moment.startswith("step-"):
        signal_at(int(moment.removeprefix("step-")), signal.SIGKILL)
        return
    target, name = {
        "tensors": (store, "file_sha256"),
        "manifest": (store.os, "replace"),
        "renamed": (store.shutil, "rmtree"),
    }[moment]
    real = getattr(target, name)

    def die(*args: object, **kwargs: object) -> object:
        path = Path(str(args[0]))
        wanted = "step-00000004" if moment != "renamed" else "step-00000002"
        if any(part.endswith(wanted) for part in path.parts) and not (moment == "renamed" and ".partial" in str(path)):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(target, name, die)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        kill_at(sys.argv[2])
    train(build_config(json.loads(Path(sys.argv[1]).read_text()), sys.argv[1]), {"letters": LettersEnvironment()})
