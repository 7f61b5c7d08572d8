"""The table of back ends, and `open_sandbox`, which opens one sandbox per process for each back end and set of options."""

from __future__ import annotations

import atexit
import importlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from verigym.sandbox.arguments import checked, suggestion
from verigym.sandbox.box import Sandbox
from verigym.sandbox.options import SandboxOptions, parse_options

BACKENDS = {
    "local": "verigym.sandbox.backends.local:LocalSandbox",
    "bubblewrap": "verigym.sandbox.backends.bubblewrap:BubblewrapSandbox",
    "docker": "verigym.sandbox.backends.container:ContainerSandbox",
}
"""Name of each back end -> "module:Class" of its `Sandbox`. One entry here registers a back end everywhere."""

_open: dict[tuple[str, SandboxOptions], Sandbox] = {}
_lock = threading.Lock()


@checked
def open_sandbox(backend: str = "local", **options: Any) -> Sandbox:
    """Return the sandbox for `backend` and `options`. Equal arguments return the same object, which all threads share.

    The sandbox's workers (processes that run programs) start when first needed and end with this process.

    Args:
        backend: one of `BACKENDS`.
        options: options of the back end, see `options.py`.

    Raises:
        ValueError: `backend` or an option is unknown, or a value invalid.
    """
    kind = backend_class(backend)
    key = (backend, parse_options(kind.options_type, backend, options))
    with _lock:
        if key not in _open or _open[key].closed:
            _open[key] = kind(**options)
        return _open[key]


@checked
def typed_options(backend: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options `given` for `backend`, converted to their types: `"2"` to 2, `"false"` to False.

    The values are checked. Whether the back end works on this machine is not checked.

    Raises:
        ValueError: `backend` or an option is unknown, or a value invalid.
    """
    options = parse_options(backend_class(backend).options_type, backend, given)
    return options.model_dump(mode="json", exclude_unset=True)


def backend_class(backend: str) -> type[Sandbox]:
    """Return the `Sandbox` class of the back end named `backend`.

    Raises:
        ValueError: there is no back end of that name.
    """
    if backend not in BACKENDS:
        raise ValueError(f"no sandbox back end is called {backend!r}{suggestion(backend, BACKENDS)}")
    module, _, name = BACKENDS[backend].partition(":")
    kind: type[Sandbox] = getattr(importlib.import_module(module), name)
    return kind


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _close_all() -> None:
    for sandbox in _open.values():
        sandbox.close()
