"""Control groups (versions 1 and 2): limits on memory and processes of a worker's whole process tree.

A worker's group is made below the group of this process (the supervisor), so the limits of the supervisor's group still hold.
In version 2, a group that contains processes cannot limit the groups below it. If the supervisor's group is such a group, the
worker's group is made beside it, provided that the supervisor may write there.

Group names hold the supervisor's pid and start time, so that a later supervisor can remove the groups that a killed supervisor
left (`sweep_stale`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from verigym.sandbox.cores import below_mount, read_file

CONTROLLERS = ("memory", "pids")

_NAME = re.compile(r"verigym-(\d+)-(\d+)-(\d+)-\d+-\w*")
_LIMIT_FILES = {
    ("memory", 1): "memory.limit_in_bytes",
    ("memory", 2): "memory.max",
    ("pids", 1): "pids.max",
    ("pids", 2): "pids.max",
}
_FOREIGN_AGE_S = 3600.0
_REMOVE_FOR_S = 2.0

_serial = itertools.count()


class Cgroup:
    """The control group of one worker. Only one thread may use it at a time; any method may raise OSError."""

    def __init__(self, name: str, places: Mapping[str, CgroupDirectory]) -> None:
        self.name = name
        self._version = {controller: place.version for controller, place in places.items()}
        self._path = {controller: f"{place.path}/{name}" for controller, place in places.items()}
        self._directories = sorted(set(self._path.values()))
        self._limits: dict[str, int] = {}
        self._events: int | None = None
        """A descriptor of the file that counts OOM kills, kept open: it is read twice per run."""

    @property
    def controllers(self) -> frozenset[str]:
        """Return the controllers that this group has, a subset of `CONTROLLERS`."""
        return frozenset(self._path)

    @property
    def versions(self) -> dict[str, int]:
        """Return the version of control groups (1 or 2) for each controller."""
        return dict(self._version)

    @classmethod
    def create(cls, name_hint: str = "") -> Cgroup | None:
        """Make a control group and return it, or None if neither memory nor processes can be limited; `probe` says why.

        Args:
            name_hint: a string that becomes part of the group's directory name.
        """
        return try_create(name_hint)[0]

    def add(self, pid: int) -> None:
        """Move the process `pid` into this group, where its future children start too.

        Memory that the process already holds stays charged to its old group.
        """
        for directory in self._directories:
            _write(f"{directory}/cgroup.procs", pid)

    def set_limits(self, memory_bytes: int, processes: int) -> None:
        """Limit the group's memory (including files in tmpfs, excluding swap) and its number of processes and threads.

        Limits that have not changed are not written again.

        Raises:
            OSError: EBUSY if more memory than the new limit is in use and cannot be freed.
        """
        for controller, value, apply in (
            ("memory", memory_bytes, self._limit_memory),
            ("pids", processes, self._limit_processes),
        ):
            if controller in self._path and self._limits.get(controller) != value:
                self._limits.pop(controller, None)
                apply(value)
                self._limits[controller] = value

    def _limit_memory(self, value: int) -> None:
        path = self._path["memory"]
        if self._version["memory"] == 2:
            _write(f"{path}/memory.max", value)
            with contextlib.suppress(FileNotFoundError):  # no swap in this kernel
                _write(f"{path}/memory.swap.max", 0)
            return
        # The memory limit may not exceed the limit of memory plus swap, so the order depends on the direction.
        with contextlib.suppress(OSError):
            _write(f"{path}/memory.memsw.limit_in_bytes", value)
        _write(f"{path}/memory.limit_in_bytes", value)
        with contextlib.suppress(FileNotFoundError, PermissionError):  # swap is not counted on this machine
            _write(f"{path}/memory.memsw.limit_in_bytes", value)

    def _limit_processes(self, value: int) -> None:
        _write(f"{self._path['pids']}/pids.max", value)

    def oom_kills(self) -> int:
        """Return how many processes of the group the OOM killer has killed; 0 if memory is not limited."""
        if "memory" not in self._path:
            return 0
        if self._events is None:
            file = "memory.events" if self._version["memory"] == 2 else "memory.oom_control"
            self._events = os.open(f"{self._path['memory']}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        for line in os.pread(self._events, 4096, 0).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0

    def processes(self) -> list[int]:
        """Return the pids of the processes in the group, as this process sees them."""
        return sorted({pid for directory in self._directories for pid in _members(directory)})

    def kill(self) -> None:
        """Send SIGKILL to every process in the group. Returns before the processes are gone."""
        if "pids" in self._path:
            with contextlib.suppress(OSError):
                _write(f"{self._path['pids']}/pids.max", 0)  # nobody can fork faster than we kill
            self._limits.pop("pids", None)
        for directory in self._directories:
            _kill(directory)

    def remove(self) -> bool:
        """Kill the processes left in the group and remove the group.

        Returns:
            Whether the group is gone; if not, a later sweep tries again.
        """
        if self._events is not None:
            os.close(self._events)
            self._events = None
        deadline = time.monotonic() + _REMOVE_FOR_S
        return all([_remove(directory, deadline) for directory in self._directories])


def probe() -> tuple[bool, str]:
    """Make a control group and remove it, to find out what it can limit.

    Returns:
        Whether groups can limit memory on this machine, and a text that says which controllers are available.
    """
    group, reasons = try_create("probe")
    versions = {} if group is None else group.versions
    if group is not None:
        group.remove()
    present = [f"{controller} v{version}" for controller, version in versions.items()]
    return "memory" in versions, "; ".join(present + [f"{controller}: {reason}" for controller, reason in reasons.items()])


def sweep_stale() -> int:
    """Remove the control groups that supervisors left when they died, killing the processes in them.

    Returns:
        The number of removed directories.
    """
    removed = 0
    directories = {place.path for controller in CONTROLLERS for place in directories_for(controller)[0]}
    for directory in sorted(directories):
        with contextlib.suppress(OSError):
            stale = [entry.path for entry in os.scandir(directory) if _is_stale(entry)]
            removed += sum(_remove(path, time.monotonic() + _REMOVE_FOR_S) for path in stale)
    return removed


def _is_stale(entry: os.DirEntry[str]) -> bool:
    match = _NAME.fullmatch(entry.name)
    if match is None:
        return False
    namespace, pid, start = map(int, match.groups())
    if namespace == _pid_namespace():
        return _start_time(pid) != start
    # A pid of another container means nothing here. An empty group that is not new will not be used again.
    return not list(_members(entry.path)) and time.time() - entry.stat().st_mtime > _FOREIGN_AGE_S


def _prefix() -> str:
    return f"verigym-{_pid_namespace()}-{os.getpid()}-{_start_time(os.getpid())}-"


def try_create(name_hint: str = "") -> tuple[Cgroup | None, dict[str, str]]:
    """Make a control group.

    Args:
        name_hint: a string that becomes part of the group's directory name.

    Returns:
        A pair: the group (None if no controller is available), and controller -> reason for each controller that is missing.
    """
    name = f"{_prefix()}{next(_serial)}-{re.sub(r'[^0-9A-Za-z_]', '_', name_hint)[:32]}"
    places: dict[str, CgroupDirectory] = {}
    reasons: dict[str, str] = {}
    for controller in CONTROLLERS:
        places_here, reasons[controller] = directories_for(controller)
        for place in places_here:
            try:
                _make(controller, place, name)
            except OSError as error:
                reasons[controller] = f"{place.path}: {error.strerror or error}"
                continue
            places[controller] = place
            del reasons[controller]
            break
    if not places:
        return None, reasons
    return Cgroup(name, places), reasons


def _make(controller: str, place: CgroupDirectory, name: str) -> None:
    path = f"{place.path}/{name}"
    made = not os.path.isdir(path)  # version 2, and some of version 1, have both controllers in one directory
    if made:
        os.mkdir(path)
    needed = [f"{path}/cgroup.procs", f"{path}/{_LIMIT_FILES[controller, place.version]}"]
    if place.version == 2:
        # Who moves a process needs to write to the lowest group above both its places.
        needed.append(f"{place.path}/cgroup.procs")
    for file in needed:
        if not os.access(file, os.W_OK):
            if made:
                os.rmdir(path)
            raise OSError(f"{file} cannot be written")


def _members(directory: str) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from map(int, read_file(f"{directory}/cgroup.procs").split())


def _kill(directory: str) -> None:
    try:
        _write(f"{directory}/cgroup.kill", 1)
    except OSError:  # version 1, or a kernel before 5.14
        for pid in _members(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _remove(directory: str, deadline: float) -> bool:
    while True:
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
            _kill(directory)
            time.sleep(0.005)
        else:
            return True


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _start_time(pid: int) -> int | None:
    """Return the process's start time in kernel ticks; None if it is dead, whether reaped or a zombie."""
    try:
        fields = read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError):
        return None


@dataclass(frozen=True)
class CgroupDirectory:
    """A directory in which control groups with one controller can be found or made."""

    path: str
    version: int


def directories_for(controller: str) -> tuple[list[CgroupDirectory], str]:
    """Return the directories in which groups with `controller` can be made, best first, and an explanation.

    If there are no directories, the explanation says why; otherwise ignore it.
    """
    try:
        return find_directories(controller, read_file("/proc/self/cgroup"), read_file("/proc/self/mountinfo"))
    except OSError as error:
        return [], str(error)


def find_directories(controller: str, memberships: str, mounts: str) -> tuple[list[CgroupDirectory], str]:
    """Find the directories in which groups with `controller` can be made, best first.

    Args:
        controller: one of `CONTROLLERS`.
        memberships: the text of /proc/self/cgroup.
        mounts: the text of /proc/self/mountinfo.

    Returns:
        A pair: the directories, and, if there are none, the reason (otherwise ignore this text).
    """
    lines = [line.split(":", 2) for line in memberships.splitlines()]
    for _, names, path in lines:
        if controller in names.split(","):
            directory = below_mount(mounts, path, lambda kind, options: kind == "cgroup" and controller in options)
            return ([CgroupDirectory(directory, 1)], "") if directory else ([], "its hierarchy (version 1) is not mounted")
    path = next((path for number, _, path in lines if number == "0"), "")
    own = below_mount(mounts, path, lambda kind, _: kind == "cgroup2") if path else None
    if own is None:
        return [], "no control groups are mounted"
    usable = []
    for directory in (own, os.path.dirname(own)):
        with contextlib.suppress(OSError):
            if controller in read_file(f"{directory}/cgroup.subtree_control").split():
                usable.append(CgroupDirectory(directory, 2))
    return usable, f"{own} and the group above it give no {controller} controller to groups below (cgroup.subtree_control)"


def _write(path: str, value: int) -> None:
    """Write a number to a kernel file."""
    # O_WRONLY only: a missing file must not be created.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)
