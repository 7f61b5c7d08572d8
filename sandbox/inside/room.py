"""The files of one run: laid out before it starts, brought back and removed when it has ended.

By the cell, which hands contents from descriptor to descriptor and never reads them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Any

from verigym.sandbox.inside import syscalls as sys_
from verigym.sandbox.inside.folders import empty
from verigym.sandbox.inside.walls import Walls

WORK = "work"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 1 << 30


def lay_out(walls: Walls, limits: Mapping[str, Any], files: Mapping[str, int], executable: str | None) -> None:
    """Make the folders of a run and its files, which are copied from descriptors.

    Raises:
        OSError: there is no room, or a path leads out of the work folder.
    """
    if walls.mounts:
        owner = "" if walls.uid is None else f",uid={walls.uid},gid={walls.uid}"
        size = f"size={limits['files_bytes']},nr_inodes={limits['inodes'] + 16}"
        sys_.mount("tmpfs", walls.run_dir, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, f"{size},mode=755{owner}")
    elif walls.uid is not None:
        os.chown(walls.run_dir, walls.uid, walls.uid)
    for name in (WORK, "tmp", "shm"):
        os.mkdir(f"{walls.run_dir}/{name}", 0o755)
        if walls.uid is not None:
            os.chown(f"{walls.run_dir}/{name}", walls.uid, walls.uid, follow_symlinks=False)
    if not files:
        return
    work = os.open(f"{walls.run_dir}/{WORK}", _FOLDER)
    try:
        for path, fd in files.items():
            _put(walls, work, path, fd, 0o755 if path == executable else 0o644)
    finally:
        os.close(work)


def _put(walls: Walls, work: int, path: str, fd: int, mode: int) -> None:
    *parents, name = path.split("/")
    if name in ("", ".", "..") or any(part in ("", ".", "..") for part in parents):
        raise OSError(f"{path!r}: expected a path below the work folder")
    folder = os.dup(work)
    try:
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o755, dir_fd=folder)
                if walls.uid is not None:
                    os.chown(parent, walls.uid, walls.uid, dir_fd=folder, follow_symlinks=False)
            inner = os.open(parent, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        out = os.open(name, os.O_WRONLY | _NEW, mode, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        offset = 0
        while sent := os.sendfile(out, fd, offset, _AT_ONCE):
            offset += sent
        if walls.uid is not None:
            os.fchown(out, walls.uid, walls.uid)
    finally:
        os.close(out)


def unnamed(walls: Walls) -> int:
    """Open a regular file that has no name: what a run printed can be read back from it.

    Raises:
        OSError: there is no room.
    """
    path = f"{walls.run_dir}/stdout"
    fd = os.open(path, os.O_RDWR | os.O_APPEND | _NEW, 0o600)
    os.unlink(path)
    if walls.uid is not None:
        os.fchown(fd, walls.uid, walls.uid)
    return fd


def collect(walls: Walls, path: str, limit: int) -> int | None:
    """Open a regular file that the run left, following no link. Returns a descriptor, or None."""
    try:
        folder = os.open(f"{walls.run_dir}/{WORK}", _FOLDER)
    except OSError:  # the run has removed or replaced it
        return None
    try:
        *parents, name = path.split("/")
        if ".." in (*parents, name):
            return None
        for parent in parents:
            inner = os.open(parent, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit or found.st_nlink > 1:
            os.close(fd)
            return None
        return fd
    except OSError:
        return None
    finally:
        os.close(folder)


def clean(walls: Walls) -> bool:
    """Remove the run's files. Returns whether nothing is left."""
    if walls.mounts:
        sys_.umount2(walls.run_dir, sys_.MNT_DETACH)
        return True
    return empty(walls.run_dir)
