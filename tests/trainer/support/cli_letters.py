"""The command line with the tests' environment registered, as a package's entry point would: `cli_letters.py train ...`."""

from __future__ import annotations

import sys

from letters import LettersEnvironment

from verigym.cli import main
from verigym.envs import register

register("letters")(LettersEnvironment)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
