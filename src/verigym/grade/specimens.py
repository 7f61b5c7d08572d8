"""Keeps a sample of the graded completions, to be examined if the results are suspicious."""

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
"""Maximum number of characters of a sampled completion. Longer ones are not sampled, so that memory stays bounded."""


class HashSample(Generic[T]):
    """A reproducible random sample of at most `most` of the values offered: those whose positions have the smallest hashes.

    Taking every n-th value instead would be biased, because values come in a repeating order: each row has the same columns and
    samples.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._seen = 0
        self._heap: list[tuple[int, int, T]] = []

    @property
    def kept(self) -> list[T]:
        """The sampled values in the order in which they were offered."""
        return [value for _, _, value in sorted(self._heap, key=lambda entry: entry[1])]

    def offer(self, value: T) -> None:
        """Offer the next value to the sample."""
        entry = (-zlib.crc32(self._seen.to_bytes(8, "big")), self._seen, value)
        self._seen += 1
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)


@dataclass(frozen=True, slots=True)
class Specimen:
    """A sampled completion and its verdict."""

    item: Item
    score: Mapping[str, Any]


@dataclass(slots=True)
class Specimens:
    """Samples of the scored completions, from which hints are made.

    Completions must be offered in input order, so that a resumed run draws the same samples.
    """

    all: HashSample[Specimen] = field(default_factory=HashSample)
    unread: HashSample[Specimen] = field(default_factory=HashSample)
    """Those in which no answer was found."""

    def see(self, item: Item, score: Mapping[str, Any]) -> None:
        """Offer a completion and its score to the samples."""
        if score["status"] == Status.ERROR or len(item.completion.text) > MAX_CHARS:
            return
        self.all.offer(Specimen(item, score))
        if score["status"] == Status.NO_ANSWER:
            self.unread.offer(Specimen(item, score))
