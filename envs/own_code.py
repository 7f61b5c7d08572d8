"""Hashes of the user's own modules that judge, so that no run goes on after one was edited.

An environment's `version` says when verdicts may change, and its author may forget to raise it. Code of ours and of installed
packages counts by version and is not looked at.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from verigym.envs.file_hash import file_sha256

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
MAIN = "__main__"


def own_code(environments: Iterable[Any]) -> dict[str, str]:
    """Return the hash of each file that environments of the user's are written in, by its name below where it is imported.

    Beside an environment's own module these are the modules of the user's that are imported at its top level, and theirs. Of a
    class in a script or a notebook its own source counts, because a script holds more than a judge. What is imported inside a
    function is not seen, nor are files that the code reads.

    Args:
        environments: made ones; compositions count by their parts.
    """
    found: dict[str, str] = {}
    waiting: list[ModuleType] = []
    for environment in _parts(environments):
        for kind in type(environment).__mro__:
            module = sys.modules.get(kind.__module__)
            if kind.__module__ == MAIN:
                found |= _source(kind)
            elif module is not None:
                waiting.append(module)
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        path = getattr(module, "__file__", None)
        if module.__name__ in seen or path is None or not _is_own(module.__name__, path):
            continue
        seen.add(module.__name__)
        try:
            digest = file_sha256(path)[:16]
        except OSError:  # from an archive; its hash could not change unnoticed
            continue
        found[_shown(module, path)] = digest
        waiting.extend(_imported(module))
    return dict(sorted(found.items()))


def _parts(environments: Iterable[Any]) -> Iterator[Any]:
    for environment in environments:
        yield environment
        inner = getattr(environment, "parts", None)
        if isinstance(inner, Mapping):
            yield from _parts(inner.values())


def _is_own(name: str, path: str) -> bool:
    return name != MAIN and name.partition(".")[0] != "verigym" and not path.startswith(_INSTALLED)


def _shown(module: ModuleType, path: str) -> str:
    """Return a module's file below the folder that it is imported from, so that the folder may move."""
    name = Path(path).name
    return "/".join([*module.__name__.split(".")[: -1 if name != "__init__.py" else None], name])


def _imported(module: ModuleType) -> Iterator[ModuleType]:
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value
        elif (other := sys.modules.get(str(getattr(value, "__module__", "")))) is not None and other is not module:
            yield other


def _source(kind: type) -> dict[str, str]:
    try:
        text = inspect.getsource(kind)
    except (OSError, TypeError):
        return {}
    return {f"class {kind.__qualname__}": hashlib.sha256(text.encode()).hexdigest()[:16]}
