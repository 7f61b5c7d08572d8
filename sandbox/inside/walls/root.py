"""The file system at isolation level 3: read-only mounts of the visible paths of the host, and one writable directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.paths import placed

WRITABLE_DIR = "/box"  # contains the only writable directory
RUN_DIR = "/box/run"  # where each run's tmpfs is mounted
USER = 1000
"""The uid named `sandbox` in /etc/passwd. In a user namespace it is the uid of runs. If the sandbox is started as root, runs
have other uids, and this entry only lets programs look up a name.
"""
DEVICES = ("null", "zero", "full", "random", "urandom")
PROC_FLAGS = sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC
PROC_OPTIONS = "hidepid=2"
_LINKS = {
    "tmp": f"{RUN_DIR[1:]}/tmp",
    "var/tmp": f"../{RUN_DIR[1:]}/tmp",
    "dev/shm": f"../{RUN_DIR[1:]}/shm",
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
}


def build(visible: Sequence[str], masked: Mapping[str, Sequence[str]], lacks: dict[str, str]) -> None:
    """Build a new root directory and move this process, and all others in its mount namespace, into it.

    Args:
        visible: paths of the host to show, with everything below them.
        masked: folder below one of `visible` -> the only paths in it to show; see `mask`.
        lacks: receives missing layer -> reason.

    Raises:
        OSError: something cannot be mounted.
    """
    sys_.mount("none", "/", None, sys_.MS_REC | sys_.MS_PRIVATE, None)
    # Opened before the new root hides what lies below it.
    held = {placed(path): os.open(path, os.O_PATH | os.O_CLOEXEC) for path in visible if os.path.exists(path)}
    held.update({f"/dev/{name}": os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC) for name in DEVICES})
    root = "/tmp"
    sys_.mount("tmpfs", root, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, "size=1m,mode=755")
    os.umask(0o022)
    for path, fd in held.items():
        _bind(path, fd, root)
    add_own_files(root, [placed(path) for path in visible])
    mask(masked, root)
    try:
        sys_.mount("proc", f"{root}/proc", "proc", PROC_FLAGS, PROC_OPTIONS)
    except OSError as error:
        lacks["proc"] = f"no /proc of its own ({error.strerror}): the host's has parts masked, as in a container"
    for fd in held.values():
        os.close(fd)
    os.chdir(root)
    sys_.pivot_root(".", ".")
    sys_.umount2(".", sys_.MNT_DETACH)
    os.chdir("/")
    make_read_only()
    sys_.sethostname("sandbox")


def add_own_files(root: str, visible: Sequence[str]) -> None:
    """Create the sandbox's own directories, links and files below `root`. Make the parent folders of `visible` unlistable."""
    for directory in ("proc", "etc", "var", "dev", RUN_DIR[1:]):
        os.makedirs(f"{root}/{directory}", exist_ok=True)
    for link, target in _LINKS.items():
        os.symlink(target, f"{root}/{link}")
    for name, text in (
        ("passwd", f"sandbox:x:{USER}:{USER}::/tmp:/bin/sh\n"),
        ("group", f"sandbox:x:{USER}:\n"),
        ("hosts", "127.0.0.1 localhost\n"),
    ):
        with open(f"{root}/etc/{name}", "w", encoding="ascii") as file:
            file.write(text)
    for path in visible:
        _hide_parents(root, path, visible)


def mask(folders: Mapping[str, Sequence[str]], root: str = "") -> None:
    """Mount an empty tmpfs over each existing folder in `folders`, and show only the listed paths in it.

    Args:
        folders: folder -> paths in it to show.
        root: the directory below which the folders are mounted.

    Raises:
        OSError: a mount fails.
    """
    there = {folder: paths for folder, paths in sorted(folders.items()) if os.path.isdir(root + folder)}
    # Opened before any is masked, for one may lie below another.
    held = {folder: os.open(root + folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for folder in there}
    mounted = []
    for folder, paths in there.items():
        target = root + folder
        if not os.path.isdir(target):
            if not paths:  # already hidden
                continue
            os.makedirs(target)
        sys_.mount("tmpfs", target, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, "size=1m,mode=755")
        mounted.append(target)
        for path in paths:
            _show_in_mask(f"/proc/self/fd/{held[folder]}/{path}", f"{target}/{path}", nested="/" in path)
    for target in mounted:
        flags = sys_.MS_REMOUNT | sys_.MS_BIND | sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NODEV
        sys_.mount("none", target, None, flags, None)
    for fd in held.values():
        os.close(fd)


def _show_in_mask(source: str, at: str, *, nested: bool) -> None:
    """Bind-mount a file or folder, read-only like the file system that contains it, on a new node at `at`."""
    try:
        mode = os.lstat(source).st_mode
        if linked := stat.S_ISLNK(mode):
            mode = os.stat(source).st_mode
    except OSError:
        return  # listed as installed but missing
    if nested:
        os.makedirs(os.path.dirname(at), exist_ok=True)
    if stat.S_ISDIR(mode):
        os.mkdir(at)
    else:
        os.mknod(at, stat.S_IFREG | 0o444)
    sys_.mount(source, at, None, sys_.MS_BIND, None)
    if linked:
        sys_.mount_read_only(at)


def _hide_parents(root: str, path: str, visible: Sequence[str]) -> None:
    """Make the parents of a path traversable but not listable: they could show names of the host's users and projects."""
    while (path := os.path.dirname(path)) not in ("/", "/etc"):
        if not any(path == known or path.startswith(f"{known}/") for known in visible):
            os.chmod(root + path, 0o111)


def make_read_only() -> None:
    """Make the root mount itself read-only."""
    sys_.mount("none", "/", None, sys_.MS_REMOUNT | sys_.MS_BIND | sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NODEV, None)


def _bind(path: str, fd: int, root: str) -> None:
    target = root + path
    mode = os.fstat(fd).st_mode
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):  # /bin -> usr/bin
        os.symlink(os.readlink(path), target)
        return
    if os.path.lexists(target):
        if not stat.S_ISDIR(mode) or os.listdir(target):
            return  # lies below a path that is already mounted
    elif stat.S_ISDIR(mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    sys_.mount(f"/proc/self/fd/{fd}", target, None, sys_.MS_BIND | sys_.MS_REC, None)
    if not path.startswith("/dev/"):
        sys_.mount_read_only(target)
