"""Builds the isolation of a worker process, before it serves runs: namespaces, and a read-only view of some paths of the host.

Level 3: new pid, mount, network, ipc and uts namespaces, and for an ordinary user also a user namespace. Level 2 has none of
these: it limits runs by seccomp, Landlock and, if started as root, a separate uid. Level 1 has resource limits only.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from verigym.sandbox.inside.walls import landlock, masked, root, seccomp
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.paths import follow_python

_SPACES = sys_.CLONE_NEWNS | sys_.CLONE_NEWPID | sys_.CLONE_NEWNET | sys_.CLONE_NEWIPC | sys_.CLONE_NEWUTS
_FIRST_UID = 1_900_000_000
_FEW_UIDS = 4000


class Walls:
    """The isolation that applies to the runs of this process.

    Args:
        level: the isolation level: 3, 2 or 1.
        uid: uid and gid of runs; None keeps those of this process.
        run_dir: directory of one run's files; contains no symbolic link.
        mounts: whether a tmpfs is mounted at `run_dir` for runs.
        owns_all: whether the forking process is pid 1 of the runs' pid namespace, so that it sees only processes of runs.
        ours: number of the sandbox's own processes with the runs' uid and user namespace. They count towards the runs' process
            limit.
        lacks: missing layer -> reason why it is missing.
    """

    def __init__(
        self,
        level: int,
        uid: int | None,
        run_dir: str,
        *,
        mounts: bool,
        owns_all: bool,
        ours: int = 0,
        lacks: dict[str, str] | None = None,
    ) -> None:
        self.level = level
        self.uid = uid
        self.run_dir = run_dir
        self.mounts = mounts
        self.owns_all = owns_all
        self.ours = ours
        self.lacks = lacks if lacks is not None else {}
        self.killer_uid = -1
        """Real uid of the process that kills a run's processes; no run has it. Used at level 2 as root; -1 elsewhere."""
        self.packages: str | None = None
        """Folder with links to the packages that programs may import, used where mounting is not possible; None elsewhere."""
        self.landlock_fd: int | None = None
        self.filter: seccomp.Filter | None = None


def build_walls(config: Mapping[str, Any]) -> Walls:
    """Isolate this process at level 2 or 1, as `config` says, or complete the isolation of bubblewrap (level 3).

    Bubblewrap has already made namespaces and mounts; this function adds the other layers of level 3.

    Returns:
        The isolation that applies to runs.

    Raises:
        OSError: a layer that the level promises cannot be built.
    """
    want = int(config["level"])
    if "enclosed" in config:  # bubblewrap has made the namespaces and mounted the visible part
        uid = _own_uid(int(config["enclosed"])) if os.geteuid() == 0 else None
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.umask(0o022)
        root.add_own_files("", config["visible"])
        root.mask(config["masked"])
        with contextlib.suppress(OSError):
            sys_.mount("proc", "/proc", "proc", sys_.MS_REMOUNT | root.PROC_FLAGS, root.PROC_OPTIONS)
        root.make_read_only()
        # In its user namespace the cell and bubblewrap's own process have the same uid as runs.
        walls = Walls(want, uid, root.RUN_DIR, mounts=True, owns_all=True, ours=0 if uid is not None else 2)
        return _confine(walls, ["/"], [root.WRITABLE_DIR, "/dev"])
    uid = _own_uid(os.getpid()) if os.geteuid() == 0 else None
    sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
    scratch = os.path.realpath(config["scratch"])
    walls = Walls(want, uid, f"{scratch}/run", mounts=False, owns_all=bool(config.get("owns_all")))
    walls.packages = f"{scratch}/packages"
    os.mkdir(walls.run_dir)
    os.mkdir(walls.packages)
    masked.link(walls.packages, config["masked"])
    if uid is not None:
        walls.killer_uid = (_uids() or range(1))[0]
        os.chmod(scratch, 0o755)  # runs may pass through it; it stays ours
    read, listed = masked.readable(config["visible"], config["masked"])
    writable = [walls.run_dir, *(f"/dev/{name}" for name in root.DEVICES)]
    return _confine(walls, [*read, walls.packages, walls.run_dir], writable, listed)


def build_walls_of_level_3(config: Mapping[str, Any], uid: int | None, lacks: dict[str, str]) -> Walls:
    """Build the isolation of level 3. The calling process must be pid 1 in the namespaces that `make_namespaces` made.

    Args:
        config: configuration of the isolation, as for `build_walls`.
        uid: uid and gid of runs; None keeps those of this process.
        lacks: receives missing layer -> reason.

    Raises:
        OSError: a required layer cannot be built.
    """
    root.build(config["visible"], config["masked"], lacks)
    follow_python()
    # The forking process has the runs' uid; the cell has it too where the user namespace has only one uid.
    walls = Walls(3, uid, root.RUN_DIR, mounts=True, owns_all=True, ours=1 if uid is not None else 2, lacks=lacks)
    return _confine(walls, ["/"], [root.WRITABLE_DIR, "/dev"])


def _confine(walls: Walls, visible: Sequence[str], writable: Sequence[str], listed: Sequence[str] = ()) -> Walls:
    harden()
    if landlock.abi():
        walls.landlock_fd = landlock.create(visible, writable, listed=listed)
    else:
        walls.lacks["landlock"] = "this kernel has no Landlock, or it is turned off"
    try:
        walls.filter = seccomp.build(deny_sockets=walls.level < 3, deny_attributes=walls.level < 3 and walls.uid is None)
    except OSError as error:
        walls.lacks["seccomp"] = str(error)
    if walls.level >= 2 and walls.filter is None:
        raise OSError(f"no seccomp: {walls.lacks['seccomp']}")
    if walls.level == 2 and not walls.owns_all and walls.landlock_fd is None:
        raise OSError(f"no Landlock: {walls.lacks['landlock']}")
    if walls.level == 2 and not walls.owns_all and walls.uid is None and landlock.abi() < 6:
        raise OSError("no namespaces and no Landlock 6: runs could signal this user's other processes")
    return walls


def harden() -> None:
    """Make this process's memory inaccessible to others, and set no_new_privs, so that programs started here gain no rights."""
    sys_.prctl(sys_.PR_SET_DUMPABLE, 0)
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    sys_.drop_bounding_set()


def make_namespaces(lacks: dict[str, str]) -> int | None:
    """Make the namespaces of level 3. The next child of this process is pid 1 of the new pid namespace.

    Args:
        lacks: receives missing layer -> reason.

    Returns:
        The uid for runs, or None if the user namespace has only one uid.

    Raises:
        OSError: namespaces are not available.
    """
    if os.geteuid() == 0 and (uid := _own_uid(os.getpid())) is not None:
        try:
            sys_.unshare(_SPACES)
        except PermissionError as error:
            lacks["root"] = f"root may not make namespaces here ({error.strerror})"
        else:
            return uid
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    sys_.unshare(_SPACES | sys_.CLONE_NEWUSER)
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{root.USER} {outer_uid} 1"),
        ("gid_map", f"{root.USER} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{file}", "w", encoding="ascii") as out:
            out.write(text)
    return None


def _own_uid(number: int) -> int | None:
    """Return a uid that nothing else on this machine uses, so that per-user limits and signals concern one cell only."""
    uids = _uids()
    return None if uids is None else uids[1 + number % (len(uids) - 1)]


def _uids() -> range | None:
    """The uid of the killing process followed by those for runs; None if too few are mapped in this user namespace."""
    usual = range(_FIRST_UID, _FIRST_UID + (1 << 24))
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
    except OSError:
        return usual
    if any(inside <= usual[0] and usual[-1] < inside + size for inside, _, size in ranges):
        return usual
    inside, _, size = max(ranges, key=lambda r: r[2])
    return range(inside + size // 2, inside + size - 1) if size >= _FEW_UIDS else None
