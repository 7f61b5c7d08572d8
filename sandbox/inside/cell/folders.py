"""Emptying a folder in which a program could do as it liked."""

from __future__ import annotations

import os
import stat


def empty(folder: str) -> bool:
    """Remove what is in a folder, whatever modes and however deep. Returns whether nothing is left.

    Folders are moved up before they are removed, so that no path grows too long and nothing recurses.
    """
    try:
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            os.chmod(folder, 0o700)
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = _open_folder(name, top)
                for below in os.listdir(inner):
                    if _is_folder(below, inner):
                        os.close(_open_folder(below, inner))
                        os.rename(below, os.urandom(12).hex(), src_dir_fd=inner, dst_dir_fd=top)
                    else:
                        os.unlink(below, dir_fd=inner)
                os.close(inner)
                os.rmdir(name, dir_fd=top)
        return True
    except OSError:
        return False
    finally:
        os.close(top)


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)


def _open_folder(name: str, parent: int) -> int:
    """Open a folder after giving its owner all rights. No process of the run is left that could put a link in its place."""
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
