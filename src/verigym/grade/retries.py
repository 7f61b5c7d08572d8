"""Replaces output lines without a verdict: a resumed run grades these completions again.

The new lines go to a journal, `OUT.retried.jsonl`, which is written like the output itself: whole lines, in order. At the end
of the run, output and journal are merged into a new file, which then replaces the output. If the run is killed before that, the
next run merges them at its start. Merging twice changes nothing, so a kill at any byte neither loses nor repeats a verdict.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from verigym.envs import UsageError
from verigym.grade.lines import json_line

NO_REWARD = b'"reward": null'
"""Bytes that every line without a verdict contains. They cannot occur inside a text, because quotes are escaped there."""


def to_retry(score: Mapping[str, Any]) -> bool:
    """Return True if `score` has an error that another try may fix. An invalid gold is no such error."""
    return score["error"] is not None and score["error"]["kind"] != "gold_invalid"


def count(path: Path) -> tuple[int, int]:
    """Return the number of lines in the file of scores `path`, and the number of those lines that are to be graded again."""
    lines = again = 0
    with open(path, "rb") as stream:
        for line in stream:
            lines += 1
            if NO_REWARD in line:
                with suppress(ValueError, KeyError, TypeError):  # no line of ours: whoever reads it next says so
                    again += to_retry(json.loads(line)["score"])
    return lines, again


class Journal:
    """File of replacement lines for an output file; `merge` later puts them into the output.

    Each replacement has the number of the output line that it replaces. Line numbers start at 1, and replacements are in
    ascending order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: BinaryIO | None = None

    def add(self, number: int, line: Mapping[str, Any]) -> None:
        """Write `line` as the replacement of line `number` and flush it, so that it survives a kill of this process."""
        if self._stream is None:
            self._stream = open(self.path, "wb")
        self._stream.write(json_line({"replaces": number, "by": line}))
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def entries(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the pairs (number, line) up to the last complete line."""
        with open(self.path, "rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                entry = json.loads(line)
                yield entry["replaces"], entry["by"]


def merge(out: Path, journal: Journal, target: BinaryIO) -> int:
    """Write the lines of `out`, with the replacements from `journal`, to `target`; return the number of replaced lines.

    Only one line of each file is in memory at a time.

    Raises:
        UsageError: `journal` belongs to another output.
    """
    entries, merged = journal.entries(), 0
    number, line = next(entries, (0, {}))
    with open(out, "rb") as old:
        for position, text in enumerate(old, 1):
            if position != number:
                target.write(text)
                continue
            _check_same(out, journal, position, json.loads(text), line)
            target.write(json_line(line))
            merged += 1
            number, line = next(entries, (0, {}))
    if number:
        raise UsageError(f"{journal.path} replaces line {number}, which {out} does not have; delete the one that is not wanted")
    target.flush()
    os.fsync(target.fileno())
    shutil.copymode(out, target.name)
    return merged


def _check_same(out: Path, journal: Journal, position: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in ("row", "sample_index", "prompt", "completion"):
        if old.get(name) != new.get(name):
            raise UsageError(f"{journal.path} is not of {out}: line {position} has another {name}; delete the one not wanted")
