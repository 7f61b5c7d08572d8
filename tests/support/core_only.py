"""A Python to which only some of the installed packages are there, as if the others had never been installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

_SITE = '''
"""Runs when Python starts, here and in every process below."""
import importlib.machinery
import sys

HIDDEN = frozenset({hidden!r})


class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)


sys.meta_path = [Finder if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
'''


def closure(requirements: Iterable[str]) -> set[str]:
    """Return the names of the distributions that pip would install for these requirements, of those that are here."""
    todo = [Requirement(text) for text in requirements]
    seen = set()
    while todo:
        requirement = todo.pop()
        key = (normal(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            further = importlib.metadata.distribution(requirement.name).requires or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for text in further:
            one = Requirement(text)
            extras = requirement.extras or {""}
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(one)
    return {name for name, _ in seen}


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hide_all_but(requirements: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the environment variables of a Python without the packages that these requirements do not bring."""
    there = closure(requirements) | {"verigym"}
    packages = importlib.metadata.packages_distributions()
    hidden = sorted(name for name, owners in packages.items() if not {normal(owner) for owner in owners} & there)
    (folder / "sitecustomize.py").write_text(_SITE.format(hidden=[name for name in hidden if not name.startswith("_")]))
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def run(environment: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
