"""The process in a container that runs one program at a time (the cell).

It does the same as `cell`, but over one byte stream, because descriptors cannot be sent into a container. It is pid 1, so no
process in the container can kill it, and its `kill(-1)` reaches every process. Unlike `cell`, it relays inputs and outputs. Its
buffers are overwritten with zeros before the next fork, so that no run can find the data of another run in its memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Collection, Mapping
from typing import Any

from verigym.sandbox.inside.cell import folders, runs
from verigym.sandbox.inside.cell.forker import Forker
from verigym.sandbox.inside.cell.relay import ACK, DONE, PAYLOAD, READY, RUN, Relay
from verigym.sandbox.inside.cell.run_dir import RunDir
from verigym.sandbox.inside.cell.stream_outputs import RunOutputs
from verigym.sandbox.inside.walls import landlock, masked, packages, seccomp
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.build import Walls

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")
# In /proc a run sees its own directory and these; files that the container's runtime has masked there would look suspicious.
_PROC = ("cpuinfo", "meminfo", "stat", "uptime", "loadavg", "version", "filesystems", "sys")
_OOM_COUNTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_RLIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def main(config: Mapping[str, Any], source: int, sink: int) -> None:
    """Report over the stream that this process is ready, and serve runs until the stream ends.

    Args:
        config: configuration of the cell.
        source: descriptor from which frames are read.
        sink: descriptor to which frames are written.
    """
    relay = Relay(fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 100), fcntl.fcntl(sink, fcntl.F_DUPFD_CLOEXEC, 100))
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for place in (0, 1, 2):
            os.dup2(null, place)
        os.close(null)
        cell = Cell(relay, os.path.realpath(config["run_dir"]), config["packages"])
        runs.prepare_for_runs(cell.walls, [config["packages"]["place"]])
        cell.state = cell.own_state()
    except BaseException as error:
        relay.send_json(READY, {"ready": False, "error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    relay.send_json(READY, {"ready": True, "level": 3, "lacks": cell.lacks, "uid": os.getuid()})
    while True:
        cell.fork_ahead()
        kind, body = relay.receive()
        while kind != RUN:  # skip late frames of the previous run
            kind, body = relay.receive()
        cell.run(json.loads(relay.receive_payload(ACK.unpack(body)[0])))
        relay.wipe()


class Cell:
    """The process in a container that runs one program at a time.

    Args:
        relay: the stream to the supervisor.
        run_dir: directory of one run's files.
        chosen: the packages that programs may import: `names`, `all_there` (whether every one must be installed), and `place`,
            an empty folder for links.

    Raises:
        OSError: the container lacks something that the back end relies on.
        packages.NotInstalled: a named package is missing.
    """

    def __init__(self, relay: Relay, run_dir: str, chosen: Mapping[str, Any]) -> None:
        self._relay = relay
        self.lacks: dict[str, str] = {}
        self.state: object = None
        """Result of `own_state` before the first run."""
        if os.getpid() != 1:
            raise OSError(errno.EPERM, "not pid 1: the container was started with an init process or the host's pid namespace")
        # pid 1 ignores signals without a handler; with Python's SIGINT handler any program could end it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys_.prctl(sys_.PR_SET_DUMPABLE, 0)
        sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
        self.walls = Walls(3, None, run_dir, mounts=False, owns_all=True, ours=2, lacks=self.lacks)
        try:
            self.walls.filter = seccomp.build(deny_sockets=True)
        except OSError as error:
            self.lacks["seccomp"] = str(error)
        self._packages: str = chosen["place"]
        self._writable = [run_dir, *_writable_mounts(but=(run_dir, self._packages))]
        hidden = _link_packages(chosen)
        if landlock.abi():
            visible = [f"/{name}" for name in os.listdir("/") if name not in ("proc", "sys")]
            read, listed = masked.readable(visible, hidden)
            read += [*(f"/proc/{name}" for name in _PROC), "/sys/devices/system/cpu"]
            self.walls.landlock_fd = landlock.create(read, self._writable, _DEVICES, listed)
        else:
            self.lacks["landlock"] = "the kernel under the container has no Landlock, or the runtime forbids it"
            if ours := [folder for folder in hidden if os.path.exists(f"{folder}/{packages.OURS}")]:
                raise OSError(
                    errno.EPERM, f"{packages.OURS}, whose environments hold solutions, is in {ours[0]}: use an image without it"
                )
        self._forker = Forker(self.walls, functools.partial(runs.become, self.walls), self._become_child)
        self._run_dir = RunDir(self.walls)
        self._oom_file = next((path for path in _OOM_COUNTS if os.access(path, os.R_OK)), None)
        if self._oom_file is None:
            self.lacks["memory_kills"] = "the container does not see its memory cgroup's counters"

    def fork_ahead(self) -> None:
        """Fork the process of the next run in advance. The relay's buffers must have been wiped before."""
        self._forker.fork_ahead()

    def run(self, header: dict[str, Any]) -> None:
        """Serve one run: read the payload after its `header`, run the program, relay its output and send the report."""
        oom_before = self._oom_kills()
        parts = [(name, self._receive_part(size)) for name, size in header["parts"]]
        outlets = RunOutputs(self._relay, header["channels"], self._forker.kill)
        note_in, note_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        fds = [*(fd for _, fd in parts), *outlets.fds]
        header["fds"] = [*(name for name, _ in parts), *outlets.names]
        if header["mode"] == "exec":
            header["argv"][0] = shutil.which(header["argv"][0], path=runs.ENVIRONMENT["PATH"]) or header["argv"][0]
        started = runs.start(self._forker, self._run_dir, header, fds, note_out)
        for fd in (*fds, note_out):
            os.close(fd)
        if not started:
            self._relay.send_json(DONE, {"broken": _read_note(note_in)})
            return
        outlets.serve(self._forker.pid)
        try:
            report = self._forker.finish().report()
            outlets.drain()
            report["note"] = _read_note(note_in)
            report["oom"] = self._oom_kills() > oom_before
            report["files"] = self._send_files(outlets, header["collect"], int(header["limits"]["collect_bytes"]))
            report["clean"] = self._clean()
        except Exception as error:
            # The container worked before the run, so the run damaged it; the supervisor replaces it.
            report = {"broken": f"{type(error).__name__}: {error}"[:300]}
        self._relay.send_json(DONE, report)

    def _receive_part(self, size: int) -> int:
        fd = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        while size > 0:
            kind, body = self._relay.receive()
            if kind == PAYLOAD:
                size -= len(body)
                while body:
                    body = body[os.write(fd, body) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        try:
            return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(fd)

    def _become_child(self) -> None:
        sys_.prctl(sys_.PR_SET_DUMPABLE, 1)  # otherwise its directory in /proc would belong to root
        if self.walls.landlock_fd is not None:
            # Its directory in /proc exists only now. The rule outlives it without effect.
            landlock.add(self.walls.landlock_fd, f"/proc/{os.getpid()}")

    def _send_files(self, outlets: RunOutputs, paths: list[str], limit: int) -> list[str]:
        collected = {path: fd for path in paths if (fd := self._run_dir.collect(path, limit)) is not None}
        outlets.send_files(list(collected.values()))
        return list(collected)

    def _oom_kills(self) -> int:
        if self._oom_file is not None:
            with contextlib.suppress(OSError, ValueError), open(self._oom_file, encoding="ascii") as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def _clean(self) -> bool:
        """Remove the run's files. Returns whether the container is as it was before the run."""
        return all([folders.empty(place) for place in self._writable]) and self.own_state() == self.state

    def own_state(self) -> object:
        """Return the settings that a run could change, since it has this process's uid, to detect changes by comparison.

        These are the resource limits, priorities and cores of this process, and, without Landlock, the links to packages.
        """
        limits = [resource.getrlimit(kind) for kind in _RLIMITS]
        links = None if self.walls.landlock_fd is not None else _links(self._packages)  # Landlock protects them
        return limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0), links


def _link_packages(chosen: Mapping[str, Any]) -> dict[str, list[str]]:
    """Create links to the packages that programs may import. Returns the masked folders for `masked.readable`."""
    here = packages.installed_in()
    shown = packages.shown(chosen["names"], here, all_there=chosen["all_there"])
    masked.link(chosen["place"], shown)
    others = packages.installed_below(["/usr", "/usr/local", "/opt", sys.base_prefix])
    return dict.fromkeys(others, []) | shown


def _links(place: str) -> list[tuple[str, str]]:
    """Return path and link target of everything below a folder."""
    paths = [os.path.join(folder, name) for folder, inner, files in os.walk(place) for name in (*inner, *files)]
    return [(path, os.readlink(path) if os.path.islink(path) else "") for path in paths]


def _writable_mounts(but: Collection[str]) -> list[str]:
    """Return other writable tmpfs mounts, such as those that runtimes add, where a program could leave data for the next."""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        mounts = [line.split()[1] for line in file if line.split()[2] == "tmpfs"]
    return [path for path in dict.fromkeys(mounts) if path not in but and os.path.isdir(path) and os.access(path, os.W_OK)]


def _read_note(fd: int) -> str:
    note = b""
    with contextlib.suppress(BlockingIOError):
        note = os.read(fd, 500)
    os.close(fd)
    return note.decode("utf-8", "replace")
