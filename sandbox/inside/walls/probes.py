"""Tries what the walls are made of, each in a process of its own that ends at once and leaves nothing behind.

A version says little: distributions change kernels, and containers forbid what the kernel has. So every layer is used for real.
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
import time
from collections.abc import Callable, Mapping
from typing import Any

from verigym.sandbox.inside.walls import landlock, seccomp
from verigym.sandbox.inside.walls import probes_spaces as spaces
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.probes_spaces import Lacking, expect, in_child

_PATIENCE_S = 5.0
_ANOTHER_UID = 1_900_000_000


def main(config: Mapping[str, Any], out_fd: int) -> None:
    """Try everything and write {layer: [available, detail]} as JSON."""
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
    except Lacking as error:
        return False, str(error)
    except OSError as error:
        return False, error.strerror or str(error)
    except BaseException as error:
        return False, f"{type(error).__name__}: {error}"


def _capabilities() -> str:
    sys_.drop_capabilities()
    with open("/proc/self/status", encoding="ascii") as file:
        sets = {line.split()[0]: int(line.split()[1], 16) for line in file if line.startswith("Cap")}
    expect(not sets["CapEff:"] and not sets["CapPrm:"], "some stay")
    return "all can be given up" if not sets["CapBnd:"] else "none held; the bounding set stays, and no_new_privs guards it"


def _seccomp() -> str:
    program = seccomp.build()
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(program)
    for call, code in ((lambda: socket.socket(), errno.EACCES), (lambda: sys_.unshare(0), errno.EPERM)):
        try:
            call()
        except OSError as error:
            expect(error.errno == code, f"a refused call ends with {error.strerror}")
        else:
            raise Lacking("a refused call goes through")
    return f"{program.length} instructions, {sys_.ARCHITECTURE}"


def _landlock() -> str:
    version = landlock.abi()
    expect(version > 0, "the kernel has none, or it is turned off")
    ruleset = landlock.create(["/usr"])
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(ruleset)
    os.listdir("/usr")
    try:
        os.listdir("/")
    except PermissionError:
        return f"ABI {version}"
    raise Lacking(f"ABI {version}, but it refuses nothing")


def _signals() -> str:
    version = landlock.abi()
    expect(version >= 6, f"Landlock ABI {version}, 6 is needed")
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

    in_child(check)
    return f"ABI {version}"


def _other_uid() -> str:
    expect(os.geteuid() == 0, "only root can give runs a uid of their own")
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    start, _, size = max(ranges, key=lambda entry: entry[2])
    expect(size >= 4000, f"this user namespace has only {size} uids")
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
    raise Lacking("the limit does not limit")


PROBES: dict[str, Callable[[], str]] = {
    "user namespace": spaces.user,
    "pid namespace": spaces.pid,
    "mount namespace": spaces.mount,
    "network namespace": spaces.network,
    "ipc namespace": spaces.ipc,
    "uts namespace": spaces.uts,
    "own /proc": spaces.proc,
    "tmpfs": spaces.tmpfs,
    "no capabilities": _capabilities,
    "seccomp": _seccomp,
    "landlock": _landlock,
    "landlock signals": _signals,
    "own uid": _other_uid,
    "process limit": _process_limit,
}
"""Layer -> what tries it: returns a detail, raises Lacking or OSError."""
