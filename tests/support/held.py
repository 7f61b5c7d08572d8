"""What a test has added to what this process holds.

Fixtures and earlier tests hold things too, sandboxes for example, and may let go of them at any moment. So two states are never
compared as a whole: only what is new counts, and only processes that are new are a test's own to signal.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from processes import children, eventually


class Held:
    """What this process holds at the moment when this is made, to compare later moments with."""

    def __init__(self) -> None:
        self._children = children(os.getpid())
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors()
        self._files = set(os.listdir(tempfile.gettempdir()))

    def new_children(self) -> set[int]:
        """Return the processes that this one has started since and has not waited for."""
        return children(os.getpid()) - self._children

    def new_threads(self) -> set[threading.Thread]:
        """Return the threads that have started since and have not ended."""
        return set(threading.enumerate()) - self._threads

    def new_descriptors(self) -> list[str]:
        """Return what descriptors that have been opened since, and are open, stand for."""
        return sorted((_descriptors() - self._descriptors).elements())

    def new_temporary_files(self) -> set[str]:
        """Return the names of new files in the folder for temporary ones; unless a fixture gives an own one, others use it."""
        return set(os.listdir(tempfile.gettempdir())) - self._files


def _descriptors() -> Counter[str]:
    """What open descriptors stand for: each pipe, socket or file has a name of its own, whatever the descriptor's number."""
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
    return found


@contextmanager
def nothing_left(within_s: float = 60.0) -> Iterator[Held]:
    """Check that what runs inside leaves no child process, thread or open descriptor."""
    held = Held()
    yield held
    eventually(lambda: not (held.new_children() or held.new_threads() or held.new_descriptors()), within_s)
    assert not held.new_children()
    assert not held.new_threads()
    assert not held.new_descriptors()
