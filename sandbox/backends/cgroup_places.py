"""Where in the control group hierarchies this process may make groups: reads the kernel's tables, changes nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A directory in which groups for a controller can be looked for or made."""

    directory: str
    version: int


def candidates(controller: str) -> tuple[list[Place], str]:
    """Where groups with this controller might be made, best first, and the reason if nowhere."""
    try:
        return find_places(controller, read("/proc/self/cgroup"), read("/proc/self/mountinfo"))
    except OSError as error:
        return [], str(error)


def find_places(controller: str, memberships: str, mounts: str) -> tuple[list[Place], str]:
    """Find where groups with this controller might be made, best first, and the reason if nowhere.

    Args:
        controller: one of `CONTROLLERS`.
        memberships: the text of /proc/self/cgroup.
        mounts: the text of /proc/self/mountinfo.
    """
    lines = [line.split(":", 2) for line in memberships.splitlines()]
    for _, names, path in lines:
        if controller in names.split(","):
            directory = _below_mount(mounts, path, lambda kind, options: kind == "cgroup" and controller in options)
            return ([Place(directory, 1)], "") if directory else ([], "its hierarchy (version 1) is not mounted")
    path = next((path for number, _, path in lines if number == "0"), "")
    own = _below_mount(mounts, path, lambda kind, _: kind == "cgroup2") if path else None
    if own is None:
        return [], "no control groups are mounted"
    found = []
    for directory in (own, os.path.dirname(own)):
        with contextlib.suppress(OSError):
            if controller in read(f"{directory}/cgroup.subtree_control").split():
                found.append(Place(directory, 2))
    return found, f"{own} and the group above it give no {controller} controller to groups below (cgroup.subtree_control)"


def _below_mount(mounts: str, path: str, wanted: Callable[[str, list[str]], bool]) -> str | None:
    """The directory of the group `path` in the first mount that is wanted (by type and options) and holds it."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        inside = os.path.relpath(path, root)
        if wanted(kind, options.split(",")) and not inside.startswith(".."):
            return os.path.normpath(f"{mount_point}/{inside}")
    return None


def read(path: str) -> str:
    """Return the text of a file of the kernel's."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write(path: str, value: int) -> None:
    """Write a number to a file of the kernel's."""
    # O_WRONLY alone: a missing file must not be made, and there is nothing to truncate.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)
