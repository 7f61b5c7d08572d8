"""Runs a program, calls and a test a few times before the first fork, so that forked processes copy fewer memory pages.

The interpreter specializes code and fills caches on its first executions. In a forked process each page that is written to must
be copied. After the warm-up those pages are no longer written to, and stay shared.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from verigym.sandbox.inside import program
from verigym.sandbox.inside.candidate import calls
from verigym.sandbox.inside.cell import prefork
from verigym.sandbox.inside.testside import harness
from verigym.sandbox.inside.wire import frames

_TIMES = 12  # more executions than the interpreter needs before it specializes code
_SOURCE = "def f(n):\n    return 2 * n\n"
_TEST = "assert f(1) == 2\nassert f(2) == 4\n"
_JOB = {"kind": "assert", "code": _TEST, "setup": "", "entry_point": None, "module": "solution", "candidate": ""}


def warm_up() -> None:
    """Run a program, calls and a test so that caches are filled, and restore the state of the process.

    Raises:
        RuntimeError: the test failed.
    """
    modules, limit, kept = dict(sys.modules), sys.getrecursionlimit(), len(program.kept)
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        for _ in range(_TIMES):
            _message()
            _program()
            _test()
    finally:
        for name in sys.modules.keys() - modules.keys():
            del sys.modules[name]
        sys.modules.update(modules)
        sys.setrecursionlimit(limit)
        sys.stdin, sys.stdout, sys.stderr = streams
        del program.kept[kept:]


@contextlib.contextmanager
def _pair() -> Iterator[tuple[_socket.socket, _socket.socket]]:
    one_end, other_end = _socket.socketpair()
    try:
        yield one_end, other_end
    finally:
        one_end.close()
        other_end.close()


def _message() -> None:
    with _pair() as (one_end, other_end):
        prefork.send_spec(one_end, b"told", [0, 1, 2], 2)
        _, fds = prefork.receive_spec(other_end)
        for fd in fds:
            os.close(fd)


def _program() -> None:
    main = program.fresh_main("/main.py")
    failed = program.execute(compile(_SOURCE, "/main.py", "exec", dont_inherit=True), main.__dict__)
    if failed is not None:
        raise failed


def _test() -> None:
    with _pair() as (test_end, candidate_end):
        main = program.fresh_main("/solution.py", "solution")
        code = compile(_SOURCE, "/solution.py", "exec", dont_inherit=True)
        program.execute(code, main.__dict__)
        server = calls.Server(main.__dict__, {})
        frames.send(candidate_end.fileno(), {"op": "loaded", "names": server.names(), "functions": server.functions()})
        requests: list[dict[str, Any]] = [{"call": "f", "args": [n], "kwargs": {}} for n in (1, 2)]
        for number, request in enumerate(requests, 1):
            server.reply(candidate_end.fileno(), {**request, "id": number, "handles": True})
        verdict = harness.run(dict(_JOB), test_end.fileno(), lambda: None)
        if not verdict["passed"]:
            raise RuntimeError(f"a test that cannot fail did: {verdict}")
        for _ in requests:
            frames.receive(candidate_end.fileno())
