"""What a run is asked for and what it gives back: programs, limits, results. Plain frozen values, no behaviour."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args


class RunStatus(enum.StrEnum):
    """How a run ended. Only INFRA is our fault, and it is raised as `SandboxFailure`, never returned as a verdict."""

    OK = "ok"
    """Ended by itself with exit code 0. Says nothing about whether its output is right."""
    WRONG = "wrong"
    """Ran, and a test found its answer wrong. Set by those who compare, never by a run."""
    RUNTIME = "runtime"
    """Ended with another exit code, an uncaught exception or a signal."""
    TIME = "time"
    """Ran into the wall or the CPU limit."""
    MEMORY = "memory"
    """Ran into the memory limit."""
    OUTPUT = "output"
    """Wrote more than the output limit."""
    COMPILE = "compile"
    """Did not compile."""
    PROTOCOL = "protocol"
    """Wrote something on the answer channel that is no answer."""
    INFRA = "infra"
    """The sandbox failed."""


class SandboxFailure(Exception):
    """Our side failed (a worker died, a tool is missing, a daemon is gone): there is no result.

    `retryable` is False where trying again cannot help until a person does something; the message says what.
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
_LEAST = {"memory_mb": 31}  # a run is a fork of a Python process until it becomes the program


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use. Every limit is enforced from outside the program.

    Raises:
        ValueError: a limit is not a positive number, a count is not a whole one, or memory is below 32 MiB.
    """

    wall_s: float = 10.0
    """Seconds from start to end; for a session, of each call."""
    cpu_s: float = 10.0
    """Seconds of CPU time of all its processes together."""
    memory_mb: int = 512
    """MiB of each process: what a program in Python or JavaScript may write to, which is less than libraries map, and the whole
    address space of others. Where a memory cgroup can be had, also the sum of what all of them hold, with their files."""
    processes: int = 32
    """Processes and threads at one time."""
    output_kb: int = 4096
    """KiB on standard output, and as many on standard error."""
    files_mb: int = 64
    """MiB of files written in the work directory."""
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
                object.__setattr__(self, item.name, int(value))  # 32.0 is equal to 32, and not the same in a file of the kernel

    @property
    def output_bytes(self) -> int:
        """The output limit in bytes."""
        return int(self.output_kb * 1024)


Prelude = Literal["none", "leetcode"]
"""Which names a program in Python finds without importing them: none, as everywhere, or those that LeetCode's judge and those
of APPS and LiveCodeBench provide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program: its source in one of the `LANGUAGES`, or what `Sandbox.build` made of it.

    Raises:
        ValueError, TypeError: a file is not below the work folder, or its content is no bytes; or there is no such prelude, or
            not for this language.
    """

    source: str
    language: str = "python"
    args: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    """More files for the work directory: relative path -> content. A compiled program's executable is here."""
    prelude: Prelude = "none"

    def __post_init__(self) -> None:
        if self.prelude not in get_args(Prelude):
            raise ValueError(f"prelude={self.prelude!r}: expected one of {', '.join(get_args(Prelude))}")
        for path, content in self.files.items():
            if any(part in ("", ".", "..") for part in path.split("/")):
                raise ValueError(f"file {path!r} of a program: expected a path below the work folder, such as data/in.txt")
            if not isinstance(content, bytes):
                raise TypeError(f"file {path!r} of a program: expected bytes, found {type(content).__name__}")


def as_program(given: Program | str) -> Program:
    """Return a program; a text is the source of one in Python.

    Raises:
        TypeError: neither of them.
    """
    if isinstance(given, str):
        return Program(source=given)
    if not isinstance(given, Program):
        raise TypeError(f"program: expected a Program, or the source of a Python program as a text; got {type(given).__name__}")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended and what it wrote."""

    status: RunStatus
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    """None where a signal ended it."""
    signal: int | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float = 0.0
    """Largest resident size of one of its processes, MiB."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files that were asked for and are regular files within the limits."""
    message: str = ""
    """What happened, for a person."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.status is RunStatus.OK
