"""Packs samples for the page: an index of numbers, which the page keeps in memory, and compressed texts, read on demand."""

from __future__ import annotations

import base64
import gzip
import json
import math
import sys
from array import array
from collections.abc import Callable, Mapping
from typing import Any

from verigym.report.record import STATUSES, Record

CHUNK = 100
"""Samples whose texts are compressed together."""
LEVEL = 6
COLUMNS = {
    "input": "B",
    "kind": "B",
    "status": "B",
    "change": "B",
    "source": "H",
    "difficulty": "H",
    "step": "i",
    "tokens": "i",
    "characters": "i",
    "prompt": "i",
    "twin": "i",
    "reward": "f",
    "advantage": "f",
    "surprise": "f",
}
"""Columns of the index with their type codes for Python's `array`: B and H are unsigned integers of 1 and 2 bytes, i is a
signed integer of 4 bytes, f is a float of 4 bytes. A missing value is NaN in floats, and -1 in `step`, `tokens`, `characters`
and `twin`."""
MOST_NAMES = 65535
TOO_MANY = "(other)"


class Packer:
    """Packs samples into the compressed chunks and the index that the page reads. It keeps no uncompressed texts in memory."""

    def __init__(self) -> None:
        self.count = 0
        self.chunks: list[str] = []
        """Gzipped JSON lists of texts, in base64."""
        self._columns: dict[str, Any] = {name: array(kind) for name, kind in COLUMNS.items()}
        self._names: dict[str, dict[str, int]] = {"kind": {}, "source": {}, "difficulty": {}}
        self._numbers: dict[str, dict[str, int]] = {"prompt": {}, "twin": {}}
        self._pending: list[Mapping[str, Any]] = []
        self._kept: list[tuple[int, str, str, str]] = []
        self._expected: list[float | None] = []

    def add(self, record: Record) -> None:
        """Add a sample."""
        columns = self._columns
        columns["input"].append(record.input)
        columns["status"].append(STATUSES.index(record.status))
        for name, value in (("kind", record.kind), ("source", record.source), ("difficulty", record.difficulty)):
            columns[name].append(self._name(name, value, 255 if name == "kind" else MOST_NAMES))
        for name, number in (("step", record.step), ("tokens", record.tokens), ("characters", record.characters)):
            columns[name].append(number)
        columns["prompt"].append(self._number("prompt", record.prompt_id))
        columns["twin"].append(self._number("twin", record.twin_id) if record.twin_id else -1)
        columns["reward"].append(_float(record.reward))
        columns["advantage"].append(_float(record.advantage))
        self._kept.append((record.input, record.prompt_id, record.source, record.twin_id))
        self._expected.append(record.expected)
        self.count += 1
        self._pending.append(record.texts)
        if len(self._pending) == CHUNK:
            self._close_chunk()

    def finish(
        self, expected: Callable[[int, str, str, float], float | None], change: Callable[[int, str], int]
    ) -> dict[str, Any]:
        """Close the last chunk and return the index for the page.

        A sample's `surprise` is the absolute difference between its reward and the expected reward.

        Args:
            expected: returns a sample's expected reward from its input, prompt, source and reward, see `Tally.expected`; called
                if the sample's log gives no expected reward.
            change: returns whether an input's verdict on a completion differs from that of other inputs, see `Twins.change`.
        """
        if self._pending:
            self._close_chunk()
        surprise, changes = self._columns["surprise"], self._columns["change"]
        rewards = self._columns["reward"]
        for place, (one, prompt, source, twin) in enumerate(self._kept):
            reward = rewards[place]
            known = self._expected[place]
            if known is None and not math.isnan(reward):
                known = expected(one, prompt, source, reward)
            surprise.append(math.nan if known is None or math.isnan(reward) else abs(reward - known))
            changes.append(change(one, twin))
        layout, parts = [], []
        for name, column in sorted(self._columns.items(), key=lambda pair: -pair[1].itemsize):  # so each is aligned
            layout.append([name, column.typecode])
            if sys.byteorder == "big":
                column.byteswap()
            parts.append(column.tobytes())
        return {
            "count": self.count,
            "chunk": CHUNK,
            "layout": layout,
            "data": _packed(b"".join(parts)),
            **{f"{name}s" if name != "difficulty" else "difficulties": list(of) for name, of in self._names.items()},
        }

    def _name(self, column: str, value: str, most: int) -> int:
        names = self._names[column]
        if value not in names and len(names) >= most:
            value = TOO_MANY
        return names.setdefault(value, len(names))

    def _number(self, column: str, value: str) -> int:
        return self._numbers[column].setdefault(value, len(self._numbers[column]))

    def _close_chunk(self) -> None:
        self.chunks.append(_packed(json.dumps(self._pending, separators=(",", ":"), allow_nan=False).encode("ascii")))
        self._pending = []


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, LEVEL, mtime=0)).decode("ascii")


def _float(value: float | None) -> float:
    # A float of 4 bytes has no room for more.
    return math.nan if value is None or abs(value) > 3e38 else value
