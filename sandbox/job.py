"""The specification of one run for a back end: command, files, descriptors, limits."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from verigym.sandbox.spec import Limits, Prelude

_MOST_FILES = 100  # each is passed as a descriptor
_MOST_WORDS = 20_000  # sent to the cell in one message, where a character may take six bytes
Mode = Literal["program", "calls", "tests", "exec"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The description of one run: the command, its files, streams and limits."""

    mode: Mode
    source: str = "main.py"
    """File name of the Python source among `files`, for the modes that load one."""
    prelude: Prelude = "none"
    """Names that the source may use without importing them."""
    argv: tuple[str, ...] = ()
    """mode exec: the command; mode program: the arguments."""
    executable: str | None = None
    """The one among `files` that is made executable."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    limits: Limits
    channels: tuple[socket.socket, ...] = ()
    """Sockets that become descriptors 3, 4, ... of the run. The supervisor's copies are closed when the run has started."""
    collect: tuple[str, ...] = ()
    """Paths of the files to return, each of at most `collect_mb` MiB; if `collect_mb` is None, the output limit applies."""
    collect_mb: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    address_space: bool = True
    """True limits the address space. False limits the data segment, for runtimes that reserve far more memory than they use."""
    reserve_mb: int | None = None
    """Limit on the address space or data segment in MiB, in place of `memory_mb`; None to use `memory_mb` for it.

    If set, `memory_mb` limits resident memory: by the control group, or without one by regular checks. It is meant for runtimes
    that reserve many times more writable memory than they use.
    """
    stack_mb: int | None = None
    """-1: unlimited; None: inherited."""
    cpu_factor: float = 1.0
    """Multiplies the CPU limit: a session answers many calls."""

    @property
    def stdout_file(self) -> bool:
        """Whether standard output is a file that the run itself reads back. If False, it is a pipe to the supervisor."""
        return self.mode == "calls"

    def __post_init__(self) -> None:
        if len(self.files) > _MOST_FILES:
            raise ValueError(f"{len(self.files)} files for one run: expected at most {_MOST_FILES}; put them into an archive")
        size = sum(map(len, (*self.argv, *self.env, *self.env.values(), *self.files, *self.collect)))
        if size > _MOST_WORDS:
            raise ValueError(
                f"arguments, environment and names of files of {size:,} characters: expected at most {_MOST_WORDS:,}; "
                "pass what is long by standard input or as a file"
            )

    def header(self, parts: list[str], core: int = -1) -> dict[str, Any]:
        """Return the message that starts the run.

        Args:
            parts: the role of each descriptor that is sent with the message.
            core: number of the CPU core on which the process that waits for this message runs; -1 for any.
        """
        limits = self.limits
        files_bytes = int(limits.files_mb * (1 << 20))
        return {
            "op": "run",
            "mode": self.mode,
            "source": self.source,
            "prelude": self.prelude != "none",
            "argv": list(self.argv),
            "executable": self.executable,
            "env": dict(self.env),
            "stdout_file": self.stdout_file,
            "collect": list(self.collect),
            "fds": parts,
            "core": core,
            "limits": {
                "cpu_s": max(1, math.ceil(limits.cpu_s * self.cpu_factor)),
                "memory_bytes": int((self.reserve_mb or limits.memory_mb) * (1 << 20)),
                "address_space": self.address_space,
                "processes": limits.processes,
                "file_bytes": files_bytes,
                "files_bytes": files_bytes,
                "collect_bytes": limits.output_bytes if self.collect_mb is None else int(self.collect_mb * (1 << 20)),
                "inodes": limits.inodes,
                "stack_bytes": self.stack_mb if self.stack_mb is None or self.stack_mb < 0 else self.stack_mb << 20,
            },
        }
