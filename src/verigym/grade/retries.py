"""Completions without a verdict are graded again when a run goes on; their new lines replace the old ones.

New lines go to a journal, `OUT.retried.jsonl`, whole and in order, as the output itself is written. At the end of a run, or at
the start of the next one where that was killed, output and journal are merged into a new file that then replaces the output.
Merging once more changes nothing, so a kill at any byte loses no verdict and repeats none.
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
"""Stands in every line without a verdict, and inside no text, where quotes are escaped."""


def to_retry(score: Mapping[str, Any]) -> bool:
    """Whether a score is a failure of ours that another try may mend; an unusable gold stays one until the input changes."""
    return score["error"] is not None and score["error"]["kind"] != "gold_invalid"


def count(path: Path) -> tuple[int, int]:
    """Return how many lines a file of scores has, and how many of them are to be graded again."""
    lines = again = 0
    with open(path, "rb") as stream:
        for line in stream:
            lines += 1
            if NO_REWARD in line:
                with suppress(ValueError, KeyError, TypeError):  # no line of ours: whoever reads it next says so
                    again += to_retry(json.loads(line)["score"])
    return lines, again


class Journal:
    """New lines, by the number of the line of the output that each replaces, from 1 and ascending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: BinaryIO | None = None

    def add(self, number: int, line: Mapping[str, Any]) -> None:
        """Write one at once: what is written survives a kill of this process."""
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
        """Yield (number, line) up to the last whole line."""
        with open(self.path, "rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                entry = json.loads(line)
                yield entry["replaces"], entry["by"]


def merge(out: Path, journal: Journal, target: BinaryIO) -> int:
    """Write the output to `target` with the journal's lines in their places, and return how many there are.

    One line of each is held at a time.

    Raises:
        UsageError: the journal belongs to another output.
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
