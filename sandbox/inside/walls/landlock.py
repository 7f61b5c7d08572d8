"""Landlock: restricts a process's access to files, TCP ports, and signals to other processes.

Landlock needs no privilege, only no_new_privs. The process that forks runs makes the ruleset once, as a descriptor. Each run
applies it with one call. Rights that an older kernel does not know are left out without an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from verigym.sandbox.inside.walls.syscalls import syscall

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")
"""The device files that a program may read and write."""

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_CHAR = 1 << 6
_MAKE_BLOCK = 1 << 11
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15

# File rights by the ABI version that introduced them: thirteen in ABI 1, then one each in 2, 3 and 5.
_FS = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_NET = 3  # since ABI 4: binding and connecting TCP
_SCOPES = 3  # since ABI 6: abstract unix sockets and signals

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1


def abi() -> int:
    """Return the Landlock ABI version of the kernel; 0 if it has no Landlock."""
    try:
        return syscall("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def create(
    read_exec: Iterable[str], write: Iterable[str] = (), devices: Iterable[str] = DEVICES, listed: Iterable[str] = ()
) -> int:
    """Make a Landlock ruleset and return its descriptor (close-on-exec).

    A rule for a directory applies to everything beneath it, including file systems mounted later on directories *inside* it. It
    does not apply to a file system that is later mounted on the directory itself. Paths that do not exist are skipped.

    Args:
        read_exec: files and directories to read and execute.
        write: directories in which everything is allowed except making device files.
        devices: device files to read and write.
        listed: directories that may only be listed, together with all directories in them.

    Raises:
        OSError: the kernel has no Landlock (ENOSYS, EOPNOTSUPP) or refused a rule.
    """
    version = abi()
    if not version:
        raise OSError(errno.EOPNOTSUPP, "Landlock is not available")
    handled = sum(rights for since, rights in _FS.items() if version >= since)
    attributes = struct.pack("QQQ", handled, _NET if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    # An older kernel accepts a larger structure if the fields that it does not know are zero.
    fd = syscall("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for paths, rights in (
            (read_exec, _READ),
            (write, handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)),
            (devices, _DEVICE),
            (listed, _READ_DIR),
        ):
            for path in paths:
                _allow(fd, path, rights & handled)
    except BaseException:
        os.close(fd)
        raise
    return fd


def add(ruleset: int, path: str) -> None:
    """Add a rule to `ruleset` that lets the file or directory `path` be read and executed.

    The new rule affects only processes that apply the ruleset after this call.
    """
    _allow(ruleset, path, _READ)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_ONLY
        rule = struct.pack("=Qi", rights, fd)
        syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(fd)


def restrict(ruleset: int) -> None:
    """Apply `ruleset` to the calling thread and its future children. Irreversible; a further ruleset only narrows access.

    Raises:
        OSError: EPERM without no_new_privs; E2BIG after sixteen rulesets.
    """
    syscall("landlock_restrict_self", ruleset, 0)
