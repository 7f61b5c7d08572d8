"""Stage 1: compiles an untrusted file in a fresh sandbox. The result is a compiled file or nothing. Printed messages are
shown to people and never decide a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from verigym.envs.code.outcome import failure_of
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.messages import Message, parse_messages
from verigym.envs.lean.task import LeanLimits
from verigym.envs.lean.toolchain import Toolchain
from verigym.sandbox import Limits, RunResult, RunStatus, Sandbox, SandboxFailure, open_sandbox
from verigym.sandbox.inside.walls.paths import placed
from verigym.sandbox.job import Job
from verigym.sandbox.languages import source_bytes

Ended = Literal["compiled", "error", "missing", "time", "memory", "output", "file", "crash"]
"""How stage 1 ended. Only `compiled` goes on to stage 2. After `crash`, a control run shows if the submission is to blame."""
_LIMITS: dict[RunStatus, Ended] = {RunStatus.TIME: "time", RunStatus.MEMORY: "memory", RunStatus.OUTPUT: "output"}
PARTS = (".olean", ".olean.server", ".olean.private")
"""Suffixes of a compiled module's files. Only a source that begins with `module` gives more than the first.

In that case the proofs are in the file with the last suffix.
"""
_SIGXFSZ = 25
_RESERVE = 16
_SHELL_SIGNAL = 128  # a wrapper reports a signal as an exit code above this
# Lean starts a thread a core; node and its like need some of their own.
_ENV = {"LEAN_NUM_THREADS": "2", "OPENSSL_CONF": "/dev/null"}


@dataclass(frozen=True)
class Compiled:
    """What stage 1 gave."""

    ended: Ended
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The compiled module by file name: `NAME.olean`, and the parts that Lean's module system stores in separate files."""
    messages: tuple[Message, ...] = ()
    detail: str = ""
    """For a person: the first error, the limit, the signal."""
    seconds: float = 0.0


class LeanBox:
    """Starts Lean processes in a sandbox, one per run. Thread-safe.

    Args:
        toolchain: the Lean to start.
        sandbox: sandbox back end, `bubblewrap` or `local`.
        workers: number of runs at a time; by default one per usable core.
        time_factor: factor on the wall and CPU time of all limits, for a slow build or machine.

    Raises:
        EnvironmentFailure: the sandbox cannot be opened.
    """

    def __init__(
        self, toolchain: Toolchain, sandbox: str = "bubblewrap", workers: int | None = None, time_factor: float = 1.0
    ) -> None:
        self.toolchain = toolchain
        self.time_factor = time_factor
        # Paths are those of a root of its own, which `local` has on its highest level only.
        more: dict[str, Any] = {"level": 3} if sandbox == "local" else {}
        try:
            self.box: Sandbox = open_sandbox(sandbox, workers=workers, packages=False, read_only=toolchain.readable, **more)
        except ValueError as error:
            raise EnvironmentFailure("unavailable", f"lean: {error}") from None

    def check(self) -> None:
        """Start a sandbox worker if there is none.

        Raises:
            EnvironmentFailure: the sandbox does not work on this machine.
        """
        try:
            self.box.check()
        except SandboxFailure as error:
            raise failure_of(error) from None

    def run(self, args: Sequence[str], files: Mapping[str, bytes], limits: LeanLimits, collect: Sequence[str]) -> RunResult:
        """Run Lean once, in a folder that contains only `files`, and return the result.

        Args:
            args: arguments after the binary's name.
            files: contents by name; they do not count against the limit on files.
            limits: limits of this run.
            collect: names of files to bring back, each at most as large as the limit on files.

        Raises:
            EnvironmentFailure: the sandbox failed.
        """
        try:
            return self.box.execute(self.job(args, files, limits, collect))
        except SandboxFailure as error:
            raise failure_of(error) from None

    def job(self, args: Sequence[str], files: Mapping[str, bytes], limits: LeanLimits, collect: Sequence[str] = ()) -> Job:
        """Return that run as the sandbox takes it."""
        own_mb = math.ceil(sum(map(len, files.values())) / (1 << 20))
        return Job(
            mode="exec",
            argv=(placed(self.toolchain.lean), *args),
            files=files,
            limits=Limits(
                wall_s=limits.wall_s * self.time_factor,
                cpu_s=limits.cpu_s * self.time_factor,
                memory_mb=limits.memory_mb,
                processes=limits.processes,
                output_kb=limits.output_kb,
                files_mb=limits.file_mb + own_mb,
            ),
            collect=tuple(collect),
            collect_mb=limits.file_mb,
            env={**_ENV, **self._path()},
            # Libraries are mapped and arenas reserved, gigabytes of them, hardly any of it touched: an honest import must
            # not fail for that. What is resident is limited.
            address_space=False,
            reserve_mb=_RESERVE * limits.memory_mb,
        )

    def _path(self) -> dict[str, str]:
        # An empty LEAN_PATH would name the working folder, where the submission's own files are.
        return {"LEAN_PATH": ":".join(map(placed, self.toolchain.lean_path))} if self.toolchain.lean_path else {}

    def compile_file(self, source: str, module: str, limits: LeanLimits) -> Compiled:
        """Compile a file and return the result.

        Args:
            source: the file's text.
            module: the module's name, which is the file name without the extension.
            limits: limits of this run.

        Raises:
            EnvironmentFailure: the sandbox failed.
        """
        source_name, parts = f"{module}.lean", [f"{module}{ending}" for ending in PARTS]
        result = self.run(("-o", parts[0], source_name), {source_name: source_bytes(source)}, limits, parts)
        return read_end(result, parts[0], limits)


def read_end(result: RunResult, wanted: str, limits: LeanLimits) -> Compiled:
    """Return the result of stage 1 (compiling), from how its process ended and the files that the process left.

    Compiling succeeded only if the file `wanted` is among these files.
    """
    text = (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace")
    messages = parse_messages(text)
    ended, detail = _ended(result, bool(result.files.get(wanted)), limits)
    if ended == "error":
        detail = next((message.text for message in messages if message.severity == "error"), detail)
    return Compiled(ended, result.files if ended == "compiled" else {}, messages, detail, result.wall_s)


def _ended(result: RunResult, left_file: bool, limits: LeanLimits) -> tuple[Ended, str]:
    if result.status is RunStatus.OK:
        if left_file:
            return "compiled", ""
        return "missing", f"Lean ended well and left no compiled file of at most {limits.file_mb} MiB"
    if result.status in _LIMITS:
        return _LIMITS[result.status], result.message
    if result.signal == _SIGXFSZ or result.exit_code == _SHELL_SIGNAL + _SIGXFSZ:
        return "file", f"the limit on files of {limits.file_mb} MiB"
    if result.exit_code is None or result.exit_code > _SHELL_SIGNAL:
        return "crash", result.message
    return "error", result.message
