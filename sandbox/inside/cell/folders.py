"""Empties a folder that an untrusted program wrote to."""

from __future__ import annotations

import os
import stat


def empty(folder: str) -> bool:
    """Remove everything in `folder`, regardless of modes and depth. Returns whether nothing is left.

    Nested folders are first moved directly into `folder` and then removed, so that paths stay short and no recursion is needed.
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
    """Open a folder after giving its owner all rights. No process is left that could replace it by a link."""
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
