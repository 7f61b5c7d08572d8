"""Closes an object's threads and processes when the object is garbage-collected or the interpreter ends."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.util import Finalize
from typing import Protocol


class Closable(Protocol):
    """Something with threads and processes."""

    def close(self) -> None:
        """End them. Idempotent."""


def close_at_the_end(owner: object, engine: Closable) -> Callable[[], None]:
    """Have `engine` closed when `owner` is garbage-collected or the process ends. Return a function that closes it earlier.

    Args:
        owner: object that holds `engine`. `engine` must not refer to `owner`, which would then never be collected.
        engine: object with threads and processes to close.
    """
    # At its end a process, one that `multiprocessing` started too, waits for its children, so they are ended before.
    at_exit = Finalize(None, _close_quietly, (engine,), exitpriority=0)

    def close() -> None:
        engine.close()
        at_exit.cancel()

    weakref.finalize(owner, _close_soon, close).atexit = False
    return close


def _close_quietly(engine: Closable) -> None:
    with suppress(Exception):
        engine.close()


def _close_soon(close: Callable[[], None]) -> None:
    """Close in a thread of its own: what is collected is collected anywhere, even where the engine's lock is held."""
    with suppress(RuntimeError):  # no thread starts while the interpreter ends, and it is closed then
        threading.Thread(target=close, name="verigym-closing", daemon=True).start()
