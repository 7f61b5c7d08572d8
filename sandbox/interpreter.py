"""A Python interpreter that keeps its state between calls, as a notebook does. It serves models as the `python` tool."""

from __future__ import annotations

from dataclasses import dataclass

from verigym.sandbox.box import Sandbox
from verigym.sandbox.session import Answer, Ended, Raised, Session
from verigym.sandbox.spec import Limits, Program, RunStatus, SandboxFailure

# Runs inside, where the text it is given may do what it likes.
_PROGRAM = r"""
import ast, linecache, sys, traceback

_names = {"__name__": "__main__"}
_cells = 0

def execute(code):
    global _cells
    _cells += 1
    place = f"<cell {_cells}>"
    linecache.cache[place] = (len(code), None, code.splitlines(True), place)
    before, sys.stderr = sys.stderr, sys.stdout
    try:
        tree = ast.parse(code, place)
        last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, place, "exec"), _names)
        value = None if last is None else eval(compile(last, place, "eval"), _names)
        if value is not None:
            _names["_"] = value
            print(repr(value))
        return ""
    except BaseException as error:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        return "".join(traceback.format_exception(type(error), error, frames))
    finally:
        sys.stderr = before
"""


@dataclass(frozen=True, slots=True)
class Executed:
    """The output and the result of one piece of executed code."""

    output: str
    """Text that the code printed, and the value of its last line if that line is an expression; at most 64 KiB."""
    error: str = ""
    """Its traceback, if it raised."""
    ended: RunStatus | None = None
    """None if the interpreter still runs. Otherwise how it ended: the state is lost, and the next call starts a new one."""


class Interpreter:
    """A Python interpreter in the sandbox.

    It starts with the first call of `execute`. Only one thread may use it at a time.

    It holds one of the sandbox's slots for concurrent runs only during a call. Between calls all its processes are stopped, so
    that they take no time from other runs. Only the back end `docker` does not stop them.

    Args:
        box: the sandbox in which the interpreter runs.
        limits: the wall time limits each call; the other limits apply to the interpreter's whole life.
    """

    def __init__(self, box: Sandbox, limits: Limits | None = None) -> None:
        self._box, self._limits = box, limits or Limits()
        self._session: Session | None = None

    def execute(self, code: str) -> Executed:
        """Run `code`, which sees the names that earlier code defined, and return its output and result.

        Raises:
            SandboxFailure: the sandbox failed, and the interpreter's state is lost.
        """
        try:
            code.encode()
        except UnicodeEncodeError:
            return Executed("", "SyntaxError: the code holds half of a surrogate pair, which no file can hold\n")
        with self._box.slot():
            try:
                if self._session is None:
                    self._session = Session(self._box.start, Program(source=_PROGRAM), self._limits)
                else:
                    self._session.resume()
                reply = self._session.call("execute", [code])
                self._session.halt()
            except SandboxFailure:
                self.close()
                raise
        if isinstance(reply, Answer):
            return Executed(reply.out, reply.value if isinstance(reply.value, str) else "")
        # Only code that reached into the interpreter itself can get another answer.
        self.close()
        if isinstance(reply, Ended):
            return Executed("", reply.result.stderr.decode(errors="replace")[-2000:], reply.result.status)
        return Executed("", f"{reply.type}: {reply.message}\n" if isinstance(reply, Raised) else "", RunStatus.PROTOCOL)

    def close(self) -> None:
        """End the interpreter. The next call of `execute` starts a new one. Further calls of `close` do nothing."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
