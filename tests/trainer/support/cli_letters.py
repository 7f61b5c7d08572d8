"""The command line with the tests' environment registered, as a package's entry point would: `cli_letters.py train ...`.

With `STAND_STILL_AT=2` a run stops itself by SIGSTOP once step 2 is logged.
"""

from __future__ import annotations

import os
import signal
import sys

from letters import LettersEnvironment

from verigym.cli import main
from verigym.envs import register

register("letters")(LettersEnvironment)

if __name__ == "__main__":
    if at := os.environ.get("STAND_STILL_AT"):
        from at_step import signal_at

        signal_at(int(at), signal.SIGSTOP)
    sys.exit(main(sys.argv[1:]))
