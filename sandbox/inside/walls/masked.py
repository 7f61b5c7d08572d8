"""Hides folders except for listed paths in them, by links and Landlock rules. Used where mounting is not possible."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence


def link(place: str, folders: Mapping[str, Sequence[str]]) -> None:
    """Fill the empty folder `place` with links to the paths in `folders`.

    Args:
        place: path of the empty folder.
        folders: folder -> the relative paths in it that programs may see. If two folders list the same relative path, the
            link leads to the first folder.

    Raises:
        OSError: the file system is full.
    """
    for folder, paths in folders.items():
        for path in paths:
            at = f"{place}/{path}"
            if os.path.lexists(at):  # the first folder wins
                continue
            try:
                os.makedirs(os.path.dirname(at), exist_ok=True)
                os.symlink(f"{folder}/{path}", at)
            except (FileExistsError, NotADirectoryError):  # below a package of an earlier folder
                continue


def readable(visible: Iterable[str], masked: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the paths for Landlock rules that allow reading `visible`, but in masked folders only the listed paths.

    Args:
        visible: paths that programs may see, with everything below them.
        masked: folder -> the paths in it that programs may see.

    Returns:
        Paths that can be read with everything below them, and folders that can only be listed.
    """
    read = [f"{folder}/{path}" for folder, paths in masked.items() for path in paths]
    listed: list[str] = []
    for path in filter(os.path.exists, visible):
        more_read, more_listed = _readable_below(os.path.realpath(path), masked)
        read += more_read
        listed += more_listed
    return read, listed


def _readable_below(path: str, masked: Iterable[str]) -> tuple[list[str], list[str]]:
    masked = [hidden for hidden in masked if hidden == path or hidden.startswith(f"{path.rstrip('/')}/")]
    if not masked:
        return [path], []
    if path in masked:
        return [], []
    read, listed = [], [path]
    for entry in os.scandir(path):
        if not entry.is_symlink():  # a rule for a link would allow its target, wherever that is
            more_read, more_listed = _readable_below(entry.path, masked)
            read += more_read
            listed += more_listed
    return read, listed
