"""Probes of the layers of isolation. Each probe runs in its own process, which ends and leaves nothing behind.

Each probe really uses its layer. The kernel's version does not suffice, since distributions patch kernels and containers forbid
features.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from verigym.sandbox.inside.walls import landlock, seccomp
from verigym.sandbox.inside.walls import syscalls as sys_

_PATIENCE_S = 5.0
_ANOTHER_UID = 1_900_000_000


def main(config: Mapping[str, Any], out_fd: int) -> None:
    """Run all probes and write {layer: [available, detail]} as JSON to the descriptor `out_fd`."""
    results = {name: _tried(probe) for name, probe in PROBES.items()}
    with open(out_fd, "w", encoding="utf-8") as out:
        json.dump(results, out)


def _tried(probe: Callable[[], str]) -> tuple[bool, str]:
    lead, follow = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(follow, json.dumps(_outcome(probe)).encode())
        finally:
            os._exit(0)
    os.close(follow)
    try:
        if not select.select([lead], [], [], _PATIENCE_S)[0]:
            return False, f"no answer within {_PATIENCE_S:.0f} s"
        data = os.read(lead, 1 << 16)
    finally:
        os.close(lead)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not data:
        return False, f"the probe died (exit code {os.waitstatus_to_exitcode(status)})"
    available, detail = json.loads(data)
    return bool(available), str(detail)


def _outcome(probe: Callable[[], str]) -> tuple[bool, str]:
    try:
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        return True, probe()
    except _Unavailable as error:
        return False, str(error)
    except OSError as error:
        return False, error.strerror or str(error)
    except BaseException as error:
        return False, f"{type(error).__name__}: {error}"


class _Unavailable(Exception):
    """The layer is not available; the message says what was observed."""


def _expect(condition: bool, seen: str) -> None:
    """Raise _Unavailable where the condition does not hold."""
    if not condition:
        raise _Unavailable(seen)


def _new(flags: int) -> str:
    """Enter new namespaces as the walls do: directly as root, otherwise inside a user namespace."""
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


def _in_child(check: Callable[[], None]) -> None:
    """Run a check in a child (pid 1 of a new pid namespace, if there is one) and raise its OSError here."""
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


def _user_probe() -> str:
    """An ordinary user can make and use a user namespace."""
    _new_user(0)
    _expect(os.geteuid() == 1000, f"uid {os.geteuid()} in it, not 1000")
    sys_.unshare(sys_.CLONE_NEWUTS)  # AppArmor allows making one but forbids its use
    return "works, with capabilities in it"


def _pid_probe() -> str:
    """A pid namespace, whose first process is number 1."""
    how = _new(sys_.CLONE_NEWPID)

    def check() -> None:
        if os.getpid() != 1:
            raise OSError(errno.EIO, "not pid 1")

    _in_child(check)
    return how


def _private_mounts() -> str:
    how = _new(sys_.CLONE_NEWNS)
    sys_.mount("none", "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
    return how


def _mount_probe() -> str:
    """A mount namespace, and read-only binds in it."""
    how = _private_mounts()
    place = tempfile.gettempdir()
    sys_.mount(place, place, None, sys_.MS_BIND | sys_.MS_REC)
    sys_.mount_read_only(place)
    try:
        os.rmdir(tempfile.mkdtemp(dir=place))
    except OSError as error:
        _expect(error.errno == errno.EROFS, str(error))
        return how
    raise _Unavailable("a read-only mount could be written")


def _tmpfs_probe() -> str:
    """A tmpfs that enforces its size."""
    how = _private_mounts()
    place = tempfile.gettempdir()
    sys_.mount("tmpfs", place, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, "size=64k,nr_inodes=16")
    try:
        with open(f"{place}/file", "wb", buffering=0) as file:
            for _ in range(32):
                file.write(bytes(4096))
    except OSError as error:
        _expect(error.errno == errno.ENOSPC, str(error))
        return f"{how}, sized"
    raise _Unavailable("it takes more than its size")


def _proc_probe() -> str:
    """A /proc that shows only its own pid namespace."""
    how = _new(sys_.CLONE_NEWPID | sys_.CLONE_NEWNS)

    def check() -> None:
        sys_.mount("none", "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
        sys_.mount("proc", "/proc", "proc", sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC)
        if [entry for entry in os.listdir("/proc") if entry.isdigit()] != ["1"]:
            raise OSError(errno.EIO, "other processes are in it")

    _in_child(check)
    return how


def _network_probe() -> str:
    """A network namespace without connections."""
    how = _new(sys_.CLONE_NEWNET)
    # Some tunnel drivers add a device to every new namespace, down and without an address.
    with socket.socket() as outside:
        outside.settimeout(0.2)
        code = outside.connect_ex(("192.0.2.1", 9))
    _expect(code == errno.ENETUNREACH, f"a connection ends with {errno.errorcode.get(code, code)}, not ENETUNREACH")
    return how


def _ipc_probe() -> str:
    """An ipc namespace."""
    before = os.stat("/proc/self/ns/ipc").st_ino
    how = _new(sys_.CLONE_NEWIPC)
    _expect(os.stat("/proc/self/ns/ipc").st_ino != before, "still the old one")
    return how


def _uts_probe() -> str:
    """A uts namespace with its own host name."""
    how = _new(sys_.CLONE_NEWUTS)
    sys_.sethostname("probe")
    _expect(os.uname().nodename == "probe", "the host name stays")
    return how


def _capabilities() -> str:
    sys_.drop_capabilities()
    with open("/proc/self/status", encoding="ascii") as file:
        sets = {line.split()[0]: int(line.split()[1], 16) for line in file if line.startswith("Cap")}
    _expect(not sets["CapEff:"] and not sets["CapPrm:"], "some stay")
    return "all can be given up" if not sets["CapBnd:"] else "none held; the bounding set stays, and no_new_privs guards it"


def _seccomp() -> str:
    program = seccomp.build()
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(program)
    for call, code in ((lambda: socket.socket(), errno.EACCES), (lambda: sys_.unshare(0), errno.EPERM)):
        try:
            call()
        except OSError as error:
            _expect(error.errno == code, f"a refused call ends with {error.strerror}")
        else:
            raise _Unavailable("a refused call goes through")
    return f"{program.length} instructions, {sys_.ARCHITECTURE}"


def _landlock() -> str:
    version = landlock.abi()
    _expect(version > 0, "the kernel has none, or it is turned off")
    ruleset = landlock.create(["/usr"])
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(ruleset)
    os.listdir("/usr")
    try:
        os.listdir("/")
    except PermissionError:
        return f"ABI {version}"
    raise _Unavailable(f"ABI {version}, but it refuses nothing")


def _signals() -> str:
    version = landlock.abi()
    _expect(version >= 6, f"Landlock ABI {version}, 6 is needed")
    parent = os.getpid()
    ruleset = landlock.create(["/"])

    def check() -> None:
        sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
        landlock.restrict(ruleset)
        try:
            os.kill(parent, 0)
        except PermissionError:
            return
        raise OSError(errno.ENOTSUP, f"ABI {version}, but signals go out")

    _in_child(check)
    return f"ABI {version}"


def _other_uid() -> str:
    _expect(os.geteuid() == 0, "only root can give runs a uid of their own")
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    start, _, size = max(ranges, key=lambda entry: entry[2])
    _expect(size >= 4000, f"this user namespace has only {size} uids")
    uid = _ANOTHER_UID + os.getpid() if start + size > _ANOTHER_UID * 1.1 else start + size - 1 - os.getpid() % 2000
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    return f"such as {uid}"


def _process_limit() -> str:
    how = "for runs under their own uid; root itself is not limited"
    if os.geteuid() == 0:
        _other_uid()
    else:
        how = "all processes of this user count"
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    try:
        child = os.fork()
    except BlockingIOError:
        return how
    if not child:
        time.sleep(1)
        os._exit(0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise _Unavailable("the limit does not limit")


PROBES: dict[str, Callable[[], str]] = {
    "user namespace": _user_probe,
    "pid namespace": _pid_probe,
    "mount namespace": _mount_probe,
    "network namespace": _network_probe,
    "ipc namespace": _ipc_probe,
    "uts namespace": _uts_probe,
    "own /proc": _proc_probe,
    "tmpfs": _tmpfs_probe,
    "no capabilities": _capabilities,
    "seccomp": _seccomp,
    "landlock": _landlock,
    "landlock signals": _signals,
    "own uid": _other_uid,
    "process limit": _process_limit,
}
"""Name of a layer -> its probe, a function that returns a detail or raises _Unavailable or OSError."""
