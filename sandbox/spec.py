"""Programs, limits and results of a run: frozen values."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from verigym.sandbox.arguments import Expected, checked_class


class RunStatus(enum.StrEnum):
    """How a run ended.

    INFRA means that the sandbox itself failed. It is raised as `SandboxFailure` and never returned as a verdict.
    """

    OK = "ok"
    """Exited with code 0. This does not say whether the output is right."""
    WRONG = "wrong"
    """Ran, but a test found the answer wrong. Set by graders, never by a run."""
    RUNTIME = "runtime"
    """Exited with a nonzero code, or was ended by an uncaught exception or a signal."""
    TIME = "time"
    """Exceeded its wall time or CPU time limit."""
    MEMORY = "memory"
    """Exceeded the memory limit."""
    OUTPUT = "output"
    """Wrote more than the output limit allows."""
    COMPILE = "compile"
    """Did not compile."""
    PROTOCOL = "protocol"
    """Wrote to the answer channel what is not a valid answer."""
    INFRA = "infra"
    """The sandbox failed."""


class SandboxFailure(Exception):
    """The sandbox itself failed, so there is no result: a worker died, a tool is missing, a daemon is down.

    `retryable` is False if a person must first do something, which the message names.
    """

    status = RunStatus.INFRA

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message, retryable)
        self.message = message
        self.retryable = retryable

    def __str__(self) -> str:
        return self.message


_WHOLE = ("memory_mb", "processes", "inodes")
MOST_PROCESSES = 1 << 22
"""The kernel's own limit."""
_LEAST = {"memory_mb": 31}  # a run starts as a fork of a Python process


@checked_class
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of one run, enforced from outside the program.

    Raises:
        ValueError: a limit is not a positive number, a count is not an integer, or memory is below 32 MiB.
        TypeError: an unknown limit is given.
    """

    wall_s: float = 10.0
    """Wall time in seconds; in a session, of each call."""
    cpu_s: float = 10.0
    """CPU time in seconds, summed over all processes of the run."""
    memory_mb: int = 512
    """Memory limit in MiB for each process. For Python and JavaScript it limits writable memory, since libraries map more than
    they write to; for other languages it limits the address space. If a memory cgroup is available, the limit also applies to
    the sum over all processes and files of the run."""
    processes: int = 32
    """Processes and threads that may exist at the same time."""
    output_kb: int = 4096
    """KiB of standard output, and separately of standard error."""
    files_mb: int = 64
    """MiB of files in the work directory."""
    inodes: int = 4096
    """Files and directories in the work directory."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            least = _LEAST.get(item.name, 0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least < value < 1e12:
                raise ValueError(f"limit {item.name}={value!r}: expected a number above {least}")
            if item.name == "processes" and value > MOST_PROCESSES:
                raise ValueError(f"limit {item.name}={value!r}: expected at most {MOST_PROCESSES:,}")
            if item.name in _WHOLE:
                if value != int(value):
                    raise ValueError(f"limit {item.name}={value!r}: expected a whole number")
                object.__setattr__(self, item.name, int(value))  # the kernel's files take "32", not "32.0"

    @property
    def output_bytes(self) -> int:
        """The output limit in bytes."""
        return int(self.output_kb * 1024)


Prelude = Literal["none", "leetcode"]
"""Names that a Python program may use without importing them: `none`, or those that the judges of LeetCode, APPS and
LiveCodeBench provide."""


@checked_class
@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program: source code in one of the `LANGUAGES`, or the result of `Sandbox.build`.

    Raises:
        ValueError: a file is not below the work folder, or the prelude is unknown.
        TypeError: a field is unknown, missing or of the wrong type.
    """

    source: str
    language: str = "python"
    args: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Additional files in the work directory: relative path -> content. Holds the executable of a compiled program."""
    prelude: Prelude = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(self.args))
        for path in self.files:
            require_below(path, f"file {path!r} of a program")


def require_below(path: str, called: str) -> None:
    """Refuse a path that is not below the work folder.

    Raises:
        ValueError: it is not; the message begins with `called`.
    """
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{called}: expected a path below the work folder, such as data/in.txt")


ProgramOrSource = Annotated[Program | str, Expected("a Program, or the source of a Python program as a text")]
MaybeLimits = Annotated[Limits | None, Expected("Limits, such as Limits(wall_s=2)")]


def as_program(given: Program | str) -> Program:
    """Return `given` as a `Program`; a string is taken as the source of a Python program."""
    return Program(source=given) if isinstance(given, str) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run: how it ended, its output and the resources it used."""

    status: RunStatus
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    """None if a signal ended the run."""
    signal: int | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float = 0.0
    """Largest resident size of any one process, in MiB."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files requested with `collect`: path -> content. Files that are missing, not regular or too large are left out."""
    message: str = ""
    """What happened, in words."""

    @property
    def ok(self) -> bool:
        """Whether the run exited with code 0."""
        return self.status is RunStatus.OK
