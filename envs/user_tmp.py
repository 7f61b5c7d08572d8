"""Private folder in the temporary directory, shared by all processes of one user."""

from __future__ import annotations

import os
import stat
import tempfile


def own_folder(name: str) -> str:
    """Return the path of this user's folder `name` in the temporary folder. It is made if it does not exist.

    Raises:
        OSError: the folder belongs to another user.
    """
    path = os.path.join(tempfile.gettempdir(), f"verigym-{name}-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"not a folder of this user (remove it, or set TMPDIR): {path}")
    return path
