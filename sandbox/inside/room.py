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
_FOLDERS = (WORK, "tmp", "shm")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 1 << 30


class Room:
    """The place for the files of one run after another.

    Where it is a file system of its own, it stays mounted as long as it can be shown to be as new: to unmount one waits until
    every core has been through the kernel, which takes milliseconds where they are busy.
    """

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._run_dir = walls.run_dir
        self._work_dir = f"{walls.run_dir}/{WORK}"
        self._size = ""
        """Of what is mounted; empty: nothing is."""
        self._new: object = None
        """What `_state` was of it when it was."""
        self._files: list[str] = []

    def lay_out(self, limits: Mapping[str, Any], files: Mapping[str, int], executable: str | None) -> None:
        """Make the folders of a run and its files, which are copied from descriptors.

        Raises:
            OSError: there is no room, or a path leads out of the work folder.
        """
        if self._walls.mounts:
            self._mount(f"size={limits['files_bytes']},nr_inodes={limits['inodes'] + 16}")
        else:
            self._give(self._run_dir)
        self._files = list(files)
        for name in _FOLDERS:
            os.mkdir(f"{self._run_dir}/{name}", 0o755)
            self._give(f"{self._run_dir}/{name}")
        if files:
            work = os.open(self._work_dir, _FOLDER)
            try:
                for path, fd in files.items():
                    self._put(work, path, fd, 0o755 if path == executable else 0o644)
            finally:
                os.close(work)

    def _mount(self, size: str) -> None:
        if size == self._size:
            return
        flags = sys_.MS_NOSUID | sys_.MS_NODEV
        if self._size:
            try:
                sys_.mount("tmpfs", self._run_dir, "tmpfs", flags | sys_.MS_REMOUNT, size)
            except OSError:
                self._unmount()
        if not self._size:
            uid = self._walls.uid
            sys_.mount(
                "tmpfs", self._run_dir, "tmpfs", flags, f"{size},mode=755" + ("" if uid is None else f",uid={uid},gid={uid}")
            )
            self._new = self._state()
        self._size = size

    def _unmount(self) -> None:
        sys_.umount2(self._run_dir, sys_.MNT_DETACH)
        self._size = ""

    def _state(self) -> object:
        """What a run can have changed of an empty one: what it uses, and what its folder itself carries."""
        used, folder = os.statvfs(self._run_dir), os.lstat(self._run_dir)
        counts = used.f_blocks - used.f_bfree, used.f_files - used.f_ffree
        attributes = None
        with contextlib.suppress(OSError):  # a kernel whose tmpfs has none
            attributes = os.listxattr(self._run_dir)
        return counts, folder.st_mode, folder.st_uid, folder.st_gid, attributes

    def _give(self, path: str | int) -> None:
        uid = self._walls.uid
        if uid is not None:
            os.chown(path, uid, uid)

    def _put(self, work: int, path: str, fd: int, mode: int) -> None:
        *parents, name = path.split("/")
        if name in ("", ".", "..") or any(part in ("", ".", "..") for part in parents):
            raise OSError(f"{path!r}: expected a path below the work folder")
        folder = os.dup(work)
        try:
            for parent in parents:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(parent, 0o755, dir_fd=folder)
                inner = os.open(parent, _FOLDER, dir_fd=folder)
                self._give(inner)
                os.close(folder)
                folder = inner
            out = os.open(name, os.O_WRONLY | _NEW, mode, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            offset = 0
            while sent := os.sendfile(out, fd, offset, _AT_ONCE):
                offset += sent
            self._give(out)
        finally:
            os.close(out)

    def unnamed(self) -> int:
        """Open a regular file that has no name: what a run printed can be read back from it.

        Raises:
            OSError: there is no room.
        """
        path = f"{self._run_dir}/stdout"
        fd = os.open(path, os.O_RDWR | os.O_APPEND | _NEW, 0o600)
        os.unlink(path)
        self._give(fd)
        return fd

    def collect(self, path: str, limit: int) -> int | None:
        """Open a regular file that the run left, following no link. Returns a descriptor, or None."""
        try:
            folder = os.open(self._work_dir, _FOLDER)
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

    def clean(self) -> bool:
        """Remove the run's files. Returns whether nothing is left."""
        emptied = self._empty_quickly() or empty(self._run_dir)
        if not self._walls.mounts:
            return emptied
        if not emptied or self._state() != self._new:
            self._unmount()
        return True

    def _empty_quickly(self) -> bool:
        """Remove what was laid out. Returns whether that was all."""
        if len(self._files) > 1:
            return False
        try:
            if self._files:
                work = os.open(self._work_dir, _FOLDER)
                try:
                    os.unlink(self._files[0], dir_fd=work)
                finally:
                    os.close(work)
            for name in _FOLDERS:
                os.rmdir(f"{self._run_dir}/{name}")
        except OSError:
            return False
        return not os.listdir(self._run_dir)
