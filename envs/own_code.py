"""Hashes of the user's own modules that judge. After an edit, no run is resumed and no cached verdict is used.

An environment's `version` should be raised when verdicts may change, but its author may forget that. The code of this library
and of installed packages is not hashed, because the version numbers of the packages identify it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from verigym.envs.contract.errors import UsageError
from verigym.envs.file_hash import file_sha256

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
MAIN = "__main__"


def own_code(environments: Iterable[Any]) -> dict[str, str]:
    """Return the hash of each file that contains code of the user's environments, keyed by its path below its import root.

    These are the module of each environment, the user's modules that it imports at its top level, and the user's modules that
    those import. For a class in a script or a notebook, only the source of the class is hashed, because the rest of a script
    may have nothing to do with judging. Imports inside functions are not seen, nor are files that the code reads.

    Args:
        environments: environment instances. For a composition, the code of its parts is hashed too.
    """
    found: dict[str, str] = {}
    waiting: list[ModuleType] = []
    for kind in _kinds(environments):
        module = sys.modules.get(kind.__module__)
        if kind.__module__ == MAIN:
            found |= _source(kind)
        elif module is not None:
            waiting.append(module)
    return dict(sorted((found | _files(waiting)).items()))


def cache_code(environment: Any) -> str:
    """Return a hash of the user's own code for the keys of cached verdicts, or an empty string for a library environment.

    The hash covers the same files as `own_code`. The only difference is a class in a script: here the hash covers the whole
    script and its imports. It rather covers too much, because a cached verdict of older code would be a wrong reward, while a
    needless cache miss only costs time.

    Raises:
        UsageError: the environment, or a part of it, is defined in a place where edits cannot be detected, such as a notebook.
    """
    waiting: list[ModuleType] = []
    for kind in _kinds([environment]):
        module = sys.modules.get(kind.__module__)
        if module is not None and getattr(module, "__file__", None) is not None:
            waiting.append(module)
        elif kind.__module__.partition(".")[0] not in sys.stdlib_module_names or kind.__module__ == MAIN:
            raise UsageError(
                f"cache: {kind.__qualname__} of environment {environment.name!r} is written in a notebook or at a prompt, "
                f"where no edit of its judge is seen, so that old verdicts would be kept; put it into a file and import it"
            )
    files = _files(waiting)
    if not files:
        return ""
    return hashlib.sha256("|".join(f"{name}={digest}" for name, digest in sorted(files.items())).encode()).hexdigest()[:16]


def _kinds(environments: Iterable[Any]) -> Iterator[type]:
    """Yield the classes that environments and their parts are made of."""
    for environment in _parts(environments):
        yield from type(environment).__mro__


def _files(waiting: list[ModuleType]) -> dict[str, str]:
    """Return the hashes of the user's among these modules, and of those that they import."""
    found: dict[str, str] = {}
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
        waiting.extend(other for other in _imported(module, path) if other.__name__ != MAIN)
    return found


def _parts(environments: Iterable[Any]) -> Iterator[Any]:
    for environment in environments:
        yield environment
        inner = getattr(environment, "parts", None)
        if isinstance(inner, Mapping):
            yield from _parts(inner.values())


def is_installed(path: str) -> bool:
    """Return whether the code file at `path` belongs to Python or to an installed package."""
    return path.startswith(_INSTALLED)


def _is_own(name: str, path: str) -> bool:
    return name.partition(".")[0] != "verigym" and not is_installed(path)


def _shown(module: ModuleType, path: str) -> str:
    """Return a module's file below the folder that it is imported from, so that the folder may move."""
    name = Path(path).name
    return "/".join([*module.__name__.split(".")[: -1 if name != "__init__.py" else None], name])


def _imported(module: ModuleType, path: str) -> Iterator[ModuleType]:
    """Yield the modules that a module's values come from, and those that it names in an import, whose values may be plain."""
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value
        elif (other := sys.modules.get(str(getattr(value, "__module__", "")))) is not None and other is not module:
            yield other
    for name in _import_names(module, path):
        if name in sys.modules:
            yield sys.modules[name]


def _import_names(module: ModuleType, path: str) -> Iterator[str]:
    try:
        statements = ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # a compiled module, or one that is being edited
        return
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            try:
                name = "." * statement.level + (statement.module or "")
                yield importlib.util.resolve_name(name, module.__package__ or None) if statement.level else name
            except ImportError:
                continue


def _source(kind: type) -> dict[str, str]:
    try:
        text = inspect.getsource(kind)
    except (OSError, TypeError):
        return {}
    return {f"class {kind.__qualname__}": hashlib.sha256(text.encode()).hexdigest()[:16]}
