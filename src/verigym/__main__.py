"""Runs the command line for `python -m verigym` and `torchrun -m verigym`."""

import sys

from verigym.cli import main

if __name__ == "__main__":
    sys.exit(main())
