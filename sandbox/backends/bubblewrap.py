"""The bubblewrap back end: each run gets its own bubblewrap process, and inside it a worker that serves only this run.

This back end is slower than `local`, which starts its workers ahead of runs. It does not use the code of `local` for namespaces
and mounts: bubblewrap makes them. Distributions maintain bubblewrap and may allow it to make namespaces where other programs
may not. Limits, system call filter and results use the same code as `local`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from verigym.sandbox.backends import boot
from verigym.sandbox.backends.worker import StartFailure, Worker
from verigym.sandbox.box import Sandbox
from verigym.sandbox.inside.walls.paths import placed
from verigym.sandbox.options import BubblewrapOptions
from verigym.sandbox.pool import Pool
from verigym.sandbox.spec import SandboxFailure
from verigym.sandbox.view import host_view, interpreter, resolved

_DEVICES = ("null", "zero", "full", "random", "urandom")
_SPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox")
# As root: no user namespace, so that each cell can give its runs a uid of their own, which the limit of processes needs.
_AS_ROOT = "CAP_SYS_ADMIN CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_KILL CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER".split()
# As a user: what the cell needs to mount each run's file system, valid in its user namespace only. Runs have no capability.
_AS_USER = "CAP_SYS_ADMIN CAP_SETPCAP".split()
_PROBE_S = 20.0
_UIDS = 1 << 24
_ADVICE = (
    "bubblewrap needs to make namespaces. On Ubuntu 24.04 AppArmor forbids it: give bwrap a profile with `userns`, or set "
    "kernel.apparmor_restrict_unprivileged_userns=0. In a container its seccomp profile does: start it with "
    "--security-opt seccomp=unconfined, or use the local back end, which has a level without namespaces"
)


class _ColdWorker(Worker):
    """A cell inside bubblewrap, whose process is a child of the started one."""

    def _handshake(self) -> dict[str, Any]:
        ready = super()._handshake()
        if self.cgroup is not None:
            # bubblewrap may have forked before it was moved. The cell now waits for its first run, so no process is missed.
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
                for pid in file.read().split():
                    self.cgroup.add(int(pid))
        return ready


class BubblewrapSandbox(Sandbox):
    """A sandbox that runs each program in its own bubblewrap process. Its options are `BubblewrapOptions`."""

    name = "bubblewrap"
    options_type = BubblewrapOptions
    options: BubblewrapOptions

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._view = host_view(self.options.packages, resolved(self.options.read_only))
        self._root: bool | None = None

    def _open(self) -> None:
        super()._open()
        self._pool: Pool[Any] = Pool(self._make, self._slots, retire_after=1)

    def _make(self) -> Worker:
        program = shutil.which(self.options.program)
        if program is None:
            raise SandboxFailure(
                f"{self.options.program} is not installed. Install it: apt-get install bubblewrap", retryable=False
            )
        tries = [os.geteuid() == 0, False] if self._root is None else [self._root]
        reasons = []
        for root in dict.fromkeys(tries):
            command = [program, *self._walls(root)]
            try:
                worker = _ColdWorker([*command, placed(interpreter()), *boot.FLAGS, "-c", boot.PROGRAM], self._config())
            except SandboxFailure as error:
                if self._root is not None or (error.retryable and not isinstance(error, StartFailure)):
                    raise
                reasons.append(_why(command) or error.message)
            else:
                self._root = root
                return worker
        raise SandboxFailure(f"bubblewrap does not work here: {'; '.join(dict.fromkeys(reasons))}. {_ADVICE}", retryable=False)

    def _config(self) -> dict[str, Any]:
        return {
            "level": 3,
            "enclosed": secrets.randbelow(_UIDS),
            "visible": list(map(placed, self._view.visible)),
            "masked": {placed(folder): paths for folder, paths in self._view.masked.items()},
            "path": list(map(placed, self._view.path)),
        }

    def _walls(self, root: bool) -> list[str]:
        user = [] if root else ["--unshare-user", "--uid", "1000", "--gid", "1000"]
        capabilities = [word for name in (_AS_ROOT if root else _AS_USER) for word in ("--cap-add", name)]
        # The cell is pid 1, so that runs can neither kill nor stop it. It makes what bubblewrap has no option for: a file
        # system for the run, with a limit on files. No --die-with-parent, which means the death of the
        # thread that started it: the cell ends with its socket or with bubblewrap.
        return [*_SPACES, *user, "--as-pid-1", "--cap-drop", "ALL", *capabilities, *_mounts(self._view.visible)]


def _mounts(paths: Sequence[str]) -> list[str]:
    words: list[str] = []
    places = [placed(path) for path in paths]
    parents: dict[str, None] = {"/dev": None}
    for path, place in zip(paths, places, strict=True):
        # Parents that bubblewrap makes by itself are accessible to their owner only.
        parents.update((str(parent), None) for parent in reversed(PurePath(place).parents) if parent.name)
        if os.path.islink(path):  # /bin -> usr/bin
            words += ["--symlink", os.readlink(path), path]
        else:
            words += ["--ro-bind", path, place]
    for name in _DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    directories = [word for parent in parents if parent not in places for word in ("--dir", parent)]
    return [*directories, *words, "--proc", "/proc"]


def _why(command: Sequence[str]) -> str:
    """Return bubblewrap's error message for the same walls around an empty program."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        ended = subprocess.run(
            [*command, placed(interpreter()), "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
        )
        return ended.stderr.decode("utf-8", "replace").strip()
    return ""
