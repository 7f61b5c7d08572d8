"""The host's files that programs may read: the system, this Python, the named packages, and paths that a caller adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from verigym.sandbox.inside.walls import packages
from verigym.sandbox.options import Packages

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache")


class View(NamedTuple):
    """The host's paths that programs can see. Links in them are resolved, except in the system's own folders."""

    visible: list[str]
    """Paths that are visible, with everything below them."""
    masked: dict[str, list[str]]
    """Folder -> the only paths in it that programs can see. The folders hold installed packages, or verigym itself."""

    @property
    def path(self) -> list[str]:
        """The folders from which packages are imported."""
        return [folder for folder, paths in self.masked.items() if paths]


@cache
def interpreter() -> str:
    """Return the path of the real Python interpreter, behind a virtual environment's link or a version manager's shim."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def package_names(choice: Packages) -> tuple[list[str], bool]:
    """Return the names of the packages that `choice` selects, and whether it is an error if one is not installed."""
    if isinstance(choice, bool):
        return (packages.USUAL if choice else []), False
    return list(choice), True


def host_view(choice: Packages = True, read_only: Sequence[str] = ()) -> View:
    """Return the host's paths that programs see.

    Args:
        choice: the packages that programs may import.
        read_only: additional files and folders to show.

    Raises:
        ValueError: a path does not exist, or belongs to verigym itself.
    """
    visible = [path for path in _SYSTEM if os.path.exists(path)]
    python = [sys.base_prefix, os.path.dirname(os.path.dirname(interpreter()))]
    _add(visible, [*python, *read_only])
    names, all_there = package_names(choice)
    masked = packages.shown(names, packages.installed_in(), all_there=all_there)
    # Folders that a caller names are shown as they are.
    others = packages.installed_below([*visible, *python])
    masked |= dict.fromkeys((folder for folder in others if folder not in masked and folder not in read_only), [])
    _add(visible, [folder for folder, paths in masked.items() if paths])
    masked |= dict.fromkeys(_own_code(read_only), [])
    return View(visible, {folder: paths for folder, paths in masked.items() if paths or _below(folder, visible)})


def _add(visible: list[str], paths: Iterable[str]) -> None:
    for path in map(os.path.realpath, paths):
        if not _below(path, visible):
            visible.append(path)


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _own_code(read_only: Sequence[str]) -> list[str]:
    """Return verigym's own folders: its package, those that it links to, and in a clone the whole clone.

    Raises:
        ValueError: `read_only` would show them to programs.
    """
    package = os.path.realpath(sys.modules[__name__.partition(".")[0]].__path__[0])
    code = [package, *(os.path.realpath(entry.path) for entry in os.scandir(package) if entry.is_symlink())]
    for path in map(os.path.realpath, read_only):
        if _below(path, code):
            raise ValueError(f"read_only: {path} is {packages.OURS}'s own, and its environments hold solutions")
    clone, source = os.path.split(os.path.dirname(package))
    in_clone = source == "src" and os.path.exists(f"{clone}/pyproject.toml")
    return code if not in_clone or any(_below(os.path.realpath(path), [clone]) for path in read_only) else [clone]


def resolved(paths: Sequence[str]) -> tuple[str, ...]:
    """Return `paths` with links resolved.

    Raises:
        ValueError: a path does not exist.
    """
    for path in paths:
        if not os.path.exists(path):
            raise ValueError(f"read_only: there is no {path}")
    return tuple(map(os.path.realpath, paths))
