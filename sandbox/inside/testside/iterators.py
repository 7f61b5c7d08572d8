"""Proxies of the candidate's iterators and generators."""

from __future__ import annotations

import types

from verigym.sandbox.inside.testside.peer import Exhausted, RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from verigym.sandbox.inside.testside.remote_info import RemoteInfo


class RemoteIterator:
    """The test's iterator over a candidate's object that the test constructed. Requests each item from the candidate."""

    def __init__(self, info: RemoteInfo) -> None:
        self._info = info

    def __iter__(self) -> RemoteIterator:
        return self

    def __next__(self) -> Any:
        try:
            return self._info.proxies.peer.value({"op": "next", "h": self._info.number})
        except RemoteError as error:
            if "StopIteration" in error.error["mro"]:
                raise StopIteration from None
            raise self._info.proxies.exception(error.error) from None


_SINGLE = 1000
"""Number of items requested one by one, so that side effects of one are visible before the next."""


class BatchedIterator(RemoteIterator):
    """The test's proxy of an iterator that the candidate returned.

    It requests the first thousand items one by one, later items in batches.
    """

    def __init__(self, info: RemoteInfo) -> None:
        super().__init__(info)
        self._ready: list[Any] = []
        self._taken = 0
        self._has_ended = False

    def __next__(self) -> Any:
        if not self._ready and not self._has_ended:
            count = 1 + min(max(0, self._taken - _SINGLE) // 8, 1000)
            batch = self._info.proxies.value({"op": "steps", "h": self._info.number}, (count,))
            is_known = isinstance(batch, tuple) and len(batch) == 2
            if not is_known or not isinstance(batch[0], list) or not isinstance(batch[1], bool):
                self._info.proxies.peer.mark_lost("protocol: items of no known form")
            self._ready, self._has_ended = list(batch[0])[::-1], batch[1]
            self._taken += len(self._ready)
        if not self._ready:
            raise StopIteration
        return self._ready.pop()


class RemoteGenerator(BatchedIterator):
    """The test's proxy of a generator that the candidate returned; it supports `send`, `close` and a return value."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return types.GeneratorType

    def __next__(self) -> Any:
        if self._taken >= _SINGLE:
            return super().__next__()
        self._taken += 1
        return self._do("send", None)

    def send(self, value: Any) -> Any:
        """Send `value` into the generator and return its next item."""
        return self._do("send", value)

    def close(self) -> None:
        """Close the generator."""
        self._do("close")

    def _do(self, name: str, *args: Any) -> Any:
        if self._ready:
            raise self._info.refusal(f"{name}() behind the first thousand items")
        try:
            return self._info.proxies.value({"op": "method", "h": self._info.number}, (name, *args))
        except Exhausted as left:
            raise StopIteration(*left.args) from None
