"""leanprover-community/repl as a screen, a pre-check that may reject a proof but never accept one.

Its processes keep the header loaded, so that rejecting a wrong proof takes no time for imports. Each submission runs in the
state in which the header left Lean. A process may not accept proofs, because it serves many submissions and an earlier one may
have tampered with it. It is replaced after a number of submissions, or if it uses too much memory, is too slow or gives an
invalid reply.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from pydantic import Field

from verigym.envs.code.outcome import failure_of
from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.backends.lines import LineClient, LineClientError
from verigym.envs.lean.backends.replies import rejection
from verigym.envs.lean.compile import LeanBox
from verigym.envs.lean.task import LeanLimits, LeanReference, solution_file
from verigym.envs.lean.toolchain import Toolchain
from verigym.sandbox import Sandbox, SandboxFailure
from verigym.sandbox.cores import usable_cores
from verigym.sandbox.job import Job

logger = logging.getLogger("verigym.lean")


class ReplOptions(Options):
    """The pool of REPLs."""

    program: str = Field(min_length=1)
    """The built program: `.lake/build/bin/repl` of leanprover-community/repl, at the toolchain's version."""
    size: int | None = Field(None, ge=1)
    """Most processes at a time; by default one a usable core."""
    uses: int = Field(100, ge=1)
    """Number of submissions after which a process is replaced, because it keeps the state after each of them in memory."""
    growth_mb: int = Field(2048, ge=1)
    """A process is also replaced when it uses this many MiB more than after loading the header."""
    memory_mb: int = Field(8192, ge=64)
    """Limit of its memory."""
    header_s: float = Field(300.0, gt=0)
    """Wall time for the header."""
    command_s: float = Field(30.0, gt=0)
    """Seconds of wall time for a submission; a slower one is left to the full check."""
    reply_kb: int = Field(4096, ge=1)
    """Most KiB of a reply."""


class _Repl:
    """A process and what it has been through."""

    def __init__(self, talker: LineClient, header: str) -> None:
        self.talker, self.header = talker, header
        self.uses = 0
        self.environment: int | None = None
        self.last = -1
        self.baseline_mb = 0.0


class ReplPool:
    """A pool of REPL processes, each with one header loaded. Thread-safe; a caller waits while all processes are busy.

    Args:
        box: starts the processes; all its slots belong to this pool.
        job: the program to start.
        options: sizes and limits.
    """

    def __init__(self, box: Sandbox, job: Job, options: ReplOptions) -> None:
        self.options = options
        self.started = 0
        """How many processes there have been."""
        self._box, self._job = box, job
        self._size = options.size or usable_cores()
        self._idle: list[_Repl] = []
        self._count = 0
        self._closed = False
        self._change = threading.Condition()

    def ask(self, header: str, command: str) -> dict[str, Any]:
        """Return the REPL's reply to `command`, run after `header`.

        Raises:
            LineClientError: the process gave no valid answer.
            SandboxFailure: no process could be started.
        """
        repl = self._take(header)
        try:
            self._load(repl)
            reply = repl.talker.ask({"cmd": command, "env": repl.environment}, self.options.command_s)
            self._in_turn(repl, reply)
        except BaseException:
            self._drop(repl)
            raise
        repl.uses += 1
        grown = repl.talker.resident_mb - repl.baseline_mb
        if repl.uses >= self.options.uses or grown > self.options.growth_mb or not repl.talker.alive:
            self._drop(repl)
        else:
            self._give(repl)
        return reply

    def _load(self, repl: _Repl) -> None:
        if repl.environment is not None:
            return
        reply = repl.talker.ask({"cmd": repl.header}, self.options.header_s)
        self._in_turn(repl, reply)
        if rejection(reply) is not None:
            raise LineClientError(f"the header does not load: {rejection(reply)}")
        repl.environment, repl.baseline_mb = repl.last, repl.talker.resident_mb

    def _in_turn(self, repl: _Repl, reply: dict[str, Any]) -> None:
        """Environments are numbered in the order of the commands: a reply with another number is not the one we want."""
        number = reply.get("env")
        if type(number) is not int or number != repl.last + 1:
            raise LineClientError(f"the reply is out of turn: environment {number!r:.40} after {repl.last}")
        repl.last = number

    def _take(self, header: str) -> _Repl:
        victim: _Repl | None = None
        with self._change:
            while True:
                if self._closed:
                    raise SandboxFailure("the pool is closed", retryable=False)
                matching = [repl for repl in self._idle if repl.header == header]
                if matching:
                    self._idle.remove(matching[-1])
                    return matching[-1]
                if self._count < self._size:
                    self._count += 1
                    break
                if self._idle:
                    victim = self._idle.pop(0)
                    break
                self._change.wait()
        if victim is not None:
            victim.talker.close()
        try:
            talker = LineClient(self._box, self._job, self.options.reply_kb * 1024)
        except BaseException:
            self._one_less()
            raise
        self.started += 1
        return _Repl(talker, header)

    def _give(self, repl: _Repl) -> None:
        with self._change:
            if not self._closed:
                self._idle.append(repl)
                self._change.notify()
                return
        self._drop(repl)

    def _drop(self, repl: _Repl) -> None:
        repl.talker.close()
        self._one_less()

    def _one_less(self) -> None:
        with self._change:
            self._count -= 1
            self._change.notify()

    def close(self) -> None:
        """End all that are idle; those at work end with their command."""
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
            self._change.notify_all()
        for repl in idle:
            self._drop(repl)


class ReplScreen:
    """Rejects submissions by asking a pool of Lean REPLs.

    Args:
        toolchain: the Lean whose libraries the REPL loads.
        options: options of the pool.

    Raises:
        EnvironmentFailure: the REPL program is missing.
    """

    options_type = ReplOptions

    def __init__(self, toolchain: Toolchain, options: ReplOptions) -> None:
        import dataclasses
        import os

        program = os.path.realpath(os.path.expanduser(options.program))
        if not os.access(program, os.X_OK):
            raise EnvironmentFailure(
                "unavailable",
                f"lean: there is no REPL at {options.program}; build it with `git clone "
                "https://github.com/leanprover-community/repl && cd repl && lake build`, at the tag of this toolchain",
            )
        readable = (*toolchain.readable, os.path.dirname(program))
        box = LeanBox(dataclasses.replace(toolchain, lean=program, readable=readable), workers=options.size)
        limits = LeanLimits(memory_mb=options.memory_mb, cpu_s=options.header_s + options.uses * options.command_s)
        self.pool = ReplPool(box.box, box.job((), {}, limits), options)

    def reject(self, reference: LeanReference, submission: str) -> str | None:
        """Return the error or `sorry` that the REPL finds, or None if it finds neither or does not answer."""
        body = solution_file(reference.model_copy(update={"header": ""}), submission)
        started = time.monotonic()
        try:
            return rejection(self.pool.ask(reference.header, body))
        except LineClientError as error:
            logger.info("lean: the REPL gave no answer after %.1f s: %s", time.monotonic() - started, error)
            return None
        except SandboxFailure as error:
            raise failure_of(error) from None

    def close(self) -> None:
        """End the pool."""
        self.pool.close()
