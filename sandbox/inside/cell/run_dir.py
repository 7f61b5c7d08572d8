"""The files of one run: created before the run starts, collected and removed after it has ended.

The process that serves runs copies file contents from descriptor to descriptor and never reads them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Any

from verigym.sandbox.inside.cell.folders import empty
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.build import Walls

WORK = "work"
_OTHERS = ("tmp", "shm")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 1 << 30


class RunDir:
    """The directory for the files of successive runs.

    Where mounting is possible, the directory is a tmpfs. If runs have another uid and so cannot modify its root directory, the
    same tmpfs serves the next run, provided that it is as empty as when it was mounted. This saves time: unmounting waits until
    every core has entered the kernel, some milliseconds on busy machines.
    """

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self._run_dir = walls.run_dir
        self._work_dir = f"{walls.run_dir}/{WORK}"
        self._size = ""
        """Mount options that hold the size of the mounted tmpfs; empty if none is mounted."""
        self._new: object = None
        """Result of `_used` right after mounting."""
        self._next = 0
        """Expected inode number of the next file in it; 0: unknown."""
        self._made = 0
        self._files: list[str] = []
        if not walls.mounts and walls.uid is not None:
            os.chmod(walls.run_dir, 0o755)  # runs may pass through it; it stays ours

    def create(self, limits: Mapping[str, Any], files: Mapping[str, int], executable: str | None) -> None:
        """Create the folders of a run and its files.

        Args:
            limits: the run's resource limits.
            files: relative path -> descriptor from which the file's content is copied.
            executable: the path among `files` that is made executable; None for none.

        Raises:
            OSError: the file system is full, or a path leads out of the work folder.
        """
        self._files = list(files)
        if self._walls.mounts:
            self._mount(f"size={limits['files_bytes']},nr_inodes={limits['inodes'] + 16}")
        self._made = 0
        first = self._folder(self._work_dir, numbered=True)
        if self._next and first != self._next:  # a gap in inode numbers would tell this run how many files the last one made
            self._unmount()
            self._mount(f"size={limits['files_bytes']},nr_inodes={limits['inodes'] + 16}")
            self._made = 0
            first = self._folder(self._work_dir, numbered=True)
        self._next = 0  # unknown until this function completes
        for name in _OTHERS:
            self._folder(f"{self._run_dir}/{name}")
        if files:
            work = os.open(self._work_dir, _FOLDER)
            try:
                for path, fd in files.items():
                    self._put(work, path, fd, 0o755 if path == executable else 0o644)
            finally:
                os.close(work)
        self._next = first

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
            sys_.mount("tmpfs", self._run_dir, "tmpfs", flags, f"{size},mode=755")
            self._new = self._used()
        self._size = size

    def _unmount(self) -> None:
        sys_.umount2(self._run_dir, sys_.MNT_DETACH)
        self._size, self._next = "", 0

    def _used(self) -> tuple[int, int]:
        """Return the numbers of used blocks and inodes."""
        now = os.statvfs(self._run_dir)
        return now.f_blocks - now.f_bfree, now.f_files - now.f_ffree

    def _folder(self, path: str, at: int | None = None, *, numbered: bool = False) -> int:
        """Create a folder; returns its inode number if `numbered` and on a tmpfs, else 0."""
        os.mkdir(path, 0o755, dir_fd=at)
        self._made += 1
        uid = self._walls.uid
        if uid is not None:
            os.chown(path, uid, uid, dir_fd=at, follow_symlinks=False)
        return os.lstat(path, dir_fd=at).st_ino if numbered and self._walls.mounts else 0

    def _give(self, fd: int) -> None:
        uid = self._walls.uid
        if uid is not None:
            os.fchown(fd, uid, uid)

    def _put(self, work: int, path: str, fd: int, mode: int) -> None:
        *parents, name = path.split("/")
        if name in ("", ".", "..") or any(part in ("", ".", "..") for part in parents):
            raise OSError(f"{path!r}: expected a path below the work folder")
        folder = os.dup(work)
        try:
            for parent in parents:
                with contextlib.suppress(FileExistsError):
                    self._folder(parent, folder)
                inner = os.open(parent, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            out = os.open(name, os.O_WRONLY | _NEW, mode, dir_fd=folder)
            self._made += 1
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
        """Create a regular file without a name, for output that is read back later, and return its descriptor.

        Raises:
            OSError: the file system is full.
        """
        path = f"{self._run_dir}/stdout"
        fd = os.open(path, os.O_RDWR | os.O_APPEND | _NEW, 0o600)
        self._made += 1
        os.unlink(path)
        self._give(fd)
        return fd

    def collect(self, path: str, limit: int) -> int | None:
        """Open the regular file at `path` that the run left, without following links.

        Returns:
            A descriptor, or None if there is no regular file at `path` or it is larger than `limit` bytes.
        """
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
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_size > limit or info.st_nlink > 1:
                os.close(fd)
                return None
            return fd
        except OSError:
            return None
        finally:
            os.close(folder)

    def clean(self) -> bool:
        """Remove the files of the last run. Returns whether nothing is left."""
        emptied = self._empty_quickly() or empty(self._run_dir)
        if not self._walls.mounts:
            return emptied
        if self._size and not (self._keeps and emptied and self._next and self._used() == self._new):
            self._unmount()
        elif self._next:
            self._next += self._made
        return True

    @property
    def _keeps(self) -> bool:
        """Whether runs cannot modify the root directory. With the cell's own uid they could change its times and attributes."""
        return self._walls.uid is not None

    def _empty_quickly(self) -> bool:
        """Remove what `create` made. Returns whether nothing else was there."""
        if len(self._files) > 1:
            return False
        try:
            if self._files:
                work = os.open(self._work_dir, _FOLDER)
                try:
                    os.unlink(self._files[0], dir_fd=work)
                finally:
                    os.close(work)
            for name in (WORK, *_OTHERS):
                os.rmdir(f"{self._run_dir}/{name}")
        except OSError:
            return False
        # On a tmpfs, anything left in the root directory shows up in `_used`.
        return self._walls.mounts or not os.listdir(self._run_dir)
