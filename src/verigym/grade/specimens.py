"""A few of the graded completions, kept to be looked at when the figures are suspicious."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from verigym.envs import Status
from verigym.grade.reading.columns import Item

T = TypeVar("T")

KEPT = 64
MAX_CHARS = 100_000
"""A longer completion is not kept, so that memory stays bounded."""


class ShardedPolicy(Generic[T]):
    """Keeps `most` of the values offered, drawn evenly and alike each time: those whose place has the smallest hashes.

    Every n-th value would not do: columns and samples come in a fixed order.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._seen = 0
        self._heap: list[tuple[int, int, T]] = []

    @property
    def kept(self) -> list[T]:
        """The values in the order in which they were offered."""
        return [value for _, _, value in sorted(self._heap, key=lambda entry: entry[1])]

    def offer(self, value: T) -> None:
        """Take a look at the next value."""
        entry = (-zlib.crc32(self._seen.to_bytes(8, "big")), self._seen, value)
        self._seen += 1
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)


@dataclass(frozen=True, slots=True)
class Specimen:
    """A completion and its verdict."""

    item: Item
    score: Mapping[str, Any]


@dataclass(slots=True)
class Specimens:
    """Offered every scored completion in the order of the input, so that a resumed run keeps the same ones."""

    all: ShardedPolicy[Specimen] = field(default_factory=ShardedPolicy)
    unread: ShardedPolicy[Specimen] = field(default_factory=ShardedPolicy)
    """Those in which no answer was found."""

    def see(self, item: Item, score: Mapping[str, Any]) -> None:
        """Offer one."""
        if score["status"] == Status.ERROR or len(item.completion.text) > MAX_CHARS:
            return
        self.all.offer(Specimen(item, score))
        if score["status"] == Status.NO_ANSWER:
            self.unread.offer(Specimen(item, score))
