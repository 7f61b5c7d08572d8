"""Tries namespaces and mounts, the way the walls make them. Each function is for a process that ends after it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Callable

from verigym.sandbox.inside.walls import syscalls as sys_


class Lacking(Exception):
    """The layer is not there; the message says what was seen."""


def expect(condition: bool, seen: str) -> None:
    """Raise Lacking where the condition does not hold."""
    if not condition:
        raise Lacking(seen)


def _new(flags: int) -> str:
    """Enter new namespaces as the walls do: as root directly, else inside a user namespace."""
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            sys_.unshare(flags)
            return "as root"
    _new_user(flags)
    return "in a user namespace"


def _new_user(flags: int) -> None:
    uid, gid = os.geteuid(), os.getegid()
    sys_.unshare(flags | sys_.CLONE_NEWUSER)
    for file, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
        with open(f"/proc/self/{file}", "w", encoding="ascii") as out:
            out.write(text)


def in_child(check: Callable[[], None]) -> None:
    """Run a check in a new child, the first process of a pid namespace if one was made, and pass its OSError on."""
    lead, follow = os.pipe()
    child = os.fork()
    if not child:
        code = 0
        try:
            check()
        except OSError as error:
            code = error.errno or errno.EIO
        except BaseException:
            code = errno.EIO
        os.write(follow, bytes([code]))
        os._exit(0)
    os.close(follow)
    answer = os.read(lead, 1)
    os.close(lead)
    os.waitpid(child, 0)
    code = answer[0] if answer else errno.EIO
    if code:
        raise OSError(code, os.strerror(code))


def user() -> str:
    """Whether anybody may make a user namespace and use it."""
    _new_user(0)
    expect(os.geteuid() == 1000, f"uid {os.geteuid()} in it, not 1000")
    sys_.unshare(sys_.CLONE_NEWUTS)  # AppArmor lets anybody make one and refuses what it is for
    return "works, with capabilities in it"


def pid() -> str:
    """A pid namespace, whose first process is number 1."""
    how = _new(sys_.CLONE_NEWPID)

    def check() -> None:
        if os.getpid() != 1:
            raise OSError(errno.EIO, "not pid 1")

    in_child(check)
    return how


def _private_mounts() -> str:
    how = _new(sys_.CLONE_NEWNS)
    sys_.mount("none", "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
    return how


def mount() -> str:
    """A mount namespace, and read-only binds in it."""
    how = _private_mounts()
    place = tempfile.gettempdir()
    sys_.mount(place, place, None, sys_.MS_BIND | sys_.MS_REC)
    sys_.mount_read_only(place)
    try:
        os.rmdir(tempfile.mkdtemp(dir=place))
    except OSError as error:
        expect(error.errno == errno.EROFS, str(error))
        return how
    raise Lacking("a read-only mount could be written")


def tmpfs() -> str:
    """A tmpfs that keeps to its size."""
    how = _private_mounts()
    place = tempfile.gettempdir()
    sys_.mount("tmpfs", place, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, "size=64k,nr_inodes=16")
    try:
        with open(f"{place}/file", "wb", buffering=0) as file:
            for _ in range(32):
                file.write(bytes(4096))
    except OSError as error:
        expect(error.errno == errno.ENOSPC, str(error))
        return f"{how}, sized"
    raise Lacking("it takes more than its size")


def proc() -> str:
    """A /proc that shows its own pid namespace only."""
    how = _new(sys_.CLONE_NEWPID | sys_.CLONE_NEWNS)

    def check() -> None:
        sys_.mount("none", "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
        sys_.mount("proc", "/proc", "proc", sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC)
        if [entry for entry in os.listdir("/proc") if entry.isdigit()] != ["1"]:
            raise OSError(errno.EIO, "other processes are in it")

    in_child(check)
    return how


def network() -> str:
    """A network namespace that leads nowhere."""
    how = _new(sys_.CLONE_NEWNET)
    # Some tunnels put a device into every new namespace: down, and with no address.
    with socket.socket() as outside:
        outside.settimeout(0.2)
        code = outside.connect_ex(("192.0.2.1", 9))
    expect(code == errno.ENETUNREACH, f"a connection ends with {errno.errorcode.get(code, code)}, not ENETUNREACH")
    return how


def ipc() -> str:
    """An ipc namespace."""
    before = os.stat("/proc/self/ns/ipc").st_ino
    how = _new(sys_.CLONE_NEWIPC)
    expect(os.stat("/proc/self/ns/ipc").st_ino != before, "still the old one")
    return how


def uts() -> str:
    """A uts namespace with a host name of its own."""
    how = _new(sys_.CLONE_NEWUTS)
    sys_.sethostname("probe")
    expect(os.uname().nodename == "probe", "the host name stays")
    return how
