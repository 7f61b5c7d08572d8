"""`Agreement`: how often verdicts agree with the input's labels. `Disagreements`: the file of completions where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict

from verigym.envs import Status
from verigym.grade.lines import json_line
from verigym.grade.out_file import remove

NAMED = 1000
"""Maximum number of disagreements whose places in the input the summary lists; the file of disagreements has all."""
PLACE_FIELDS = ("row", "line", "sample_index", "column", "group", "gold", "label")


class Place(BaseModel):
    """The position of a completion in the input: its row, its line, and its number among the row's completions."""

    model_config = ConfigDict(frozen=True)

    row: int
    line: int | None
    sample_index: int


class Agreement(BaseModel):
    """Counts of completions by label and verdict. The verdict counts as right if its status is correct, else as wrong."""

    model_config = ConfigDict(frozen=True)

    column: str
    both_right: int
    both_wrong: int
    only_verdict_right: int
    only_label_right: int
    unscored: int
    """With a label and no verdict."""
    unlabelled: int
    only_verdict_right_at: tuple[Place, ...]
    """The first NAMED."""
    only_label_right_at: tuple[Place, ...]

    @property
    def compared(self) -> int:
        """Number of completions that have both a label and a verdict."""
        return self.both_right + self.both_wrong + self.only_verdict_right + self.only_label_right

    @property
    def agreed(self) -> int:
        """Number of compared completions on which label and verdict agree."""
        return self.both_right + self.both_wrong


def agrees(label: bool | None, score: Mapping[str, Any]) -> bool | None:
    """Return True if the verdict in `score` agrees with `label`; None if there is no label or no verdict."""
    return None if label is None or score["error"] is not None else (score["status"] == Status.CORRECT) == label


class Disagreements:
    """Counts the lines of an output file by label and verdict, and writes lines on which the two disagree to the file `path`.

    These lines look like those of `--diff-out`, with `label` in place of the old score. If there are none, there is no file.
    """

    def __init__(self, path: Path, column: str) -> None:
        self.path = path
        self._column = column
        self._counts = dict.fromkeys(
            ("both_right", "both_wrong", "only_verdict_right", "only_label_right", "unscored", "unlabelled"), 0
        )
        self._at: dict[str, list[Place]] = {"only_verdict_right": [], "only_label_right": []}
        remove(path)

    def watch(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Count `lines`, write the disagreements, and yield the lines unchanged."""
        stream: BinaryIO | None = None
        try:
            for line in lines:
                kind = _kind(line)
                self._counts[kind] += 1
                if kind in self._at:
                    stream = stream or open(self.path, "wb")
                    stream.write(json_line({**{name: line[name] for name in PLACE_FIELDS}, "new": line["score"]}))
                    if len(self._at[kind]) < NAMED:
                        self._at[kind].append(Place(row=line["row"], line=line["line"], sample_index=line["sample_index"]))
                yield line
        finally:
            if stream is not None:
                stream.close()

    def agreement(self) -> Agreement:
        """Return the counts of the lines that `watch` has yielded."""
        at = {f"{kind}_at": tuple(places) for kind, places in self._at.items()}
        return Agreement(column=self._column, **self._counts, **at)


def _kind(line: Mapping[str, Any]) -> str:
    label, score = line["label"], line["score"]
    same = agrees(label, score)
    if same is None:
        return "unlabelled" if label is None else "unscored"
    if same:
        return "both_right" if label else "both_wrong"
    return "only_label_right" if label else "only_verdict_right"
