"""The two ways to run a Python program inside the walls: as `python3 main.py` would, and as a server of calls."""

from __future__ import annotations

import os

from verigym.sandbox.inside import program
from verigym.sandbox.inside.candidate import calls, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def run_program(path: str, args: Sequence[str] = (), prelude: bool = False) -> NoReturn:
    """Run the file as `python3 path *args` would, in this freshly forked process, and end the process.

    Args:
        path: of the file.
        args: of the program.
        prelude: whether it finds the names that judges provide.
    """
    code = 1
    try:
        code = _run(path, args, prelude)
    finally:
        program.finish(code)


def _run(path: str, args: Sequence[str], prelude: bool) -> int:
    main = program.enter(path, args)
    try:
        code = program.load(path)
    except BaseException as error:
        error.__traceback__ = None
        return program.report(error)
    if prelude:
        names.provide(code, main.__dict__)
    failed = program.execute(code, main.__dict__)
    return 0 if failed is None else program.report(failed)


def serve_calls(path: str, fd: int = 3, prelude: bool = False) -> NoReturn:
    """Load the file as a module and answer calls to its functions on the channel until that closes; then end the process."""
    try:
        calls.serve(path, fd, prelude)
    finally:
        program.flush()
        os._exit(1)
