"""`verigym grade --diff`: compares two gradings of the same completions.

Both files hold their lines in the order of the input, so they are read side by side in constant memory. Lines match by row,
sample and completion. Prompts and golds may differ, because people grade again after correcting a gold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verigym.envs import Status, UsageError
from verigym.grade.agreement import PLACE_FIELDS, agrees
from verigym.grade.bad_rows import same_file
from verigym.grade.lines import json_line
from verigym.grade.reading.records import sample_place

WANTED = (
    "--diff compares two files of scores (`verigym grade NEW --diff OLD`); to grade model outputs first and compare "
    "their scores, give --env (or --data) and --out too"
)
KEPT = 50
"""Maximum number of changes that are kept to be printed; the file of changes has all."""


@dataclass(frozen=True, slots=True)
class Change:
    """A completion whose verdict or reward differs between two gradings."""

    new: Mapping[str, Any]
    old: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the change as one line of the file of changes."""
        return {**{name: self.new.get(name) for name in PLACE_FIELDS}, "new": self.new["score"], "old": self.old["score"]}


@dataclass(slots=True)
class Comparison:
    """The counts from comparing two gradings, and the first changes."""

    new: Path
    old: Path
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(old status, new status) -> completions."""
    changed: int = 0
    """Another status, or another reward."""
    first_changes: list[Change] = field(default_factory=list)
    only_new: int = 0
    only_old: int = 0
    first_alone: str = ""
    """The first completion that one file lacks, for people."""
    other_prompts: int = 0
    """Number of completions with different prompts or references in the two files."""
    new_graders: Counter[str] = field(default_factory=Counter)
    old_graders: Counter[str] = field(default_factory=Counter)
    labelled: int = 0
    """Number of completions that have a label in the new file, and a verdict in both files."""
    new_agrees: int = 0
    """Those on which the new verdict says what the label says."""
    old_agrees: int = 0

    @property
    def both(self) -> int:
        """Number of completions that are in both files."""
        return self.verdicts.total()

    @property
    def differs(self) -> bool:
        """True if a verdict or reward changed, or a completion is missing from one of the files."""
        return bool(self.changed or self.only_new or self.only_old)

    def as_json(self) -> dict[str, Any]:
        """Return the counts and the first changes as a dictionary for JSON."""
        counts = ("both", "changed", "only_new", "only_old", "other_prompts", "labelled", "new_agrees", "old_agrees")
        return {
            "new": str(self.new),
            "old": str(self.old),
            "new_graders": sorted(self.new_graders),
            "old_graders": sorted(self.old_graders),
            **{name: getattr(self, name) for name in counts},
            "verdicts": [{"old": old, "new": new, "n": count} for (old, new), count in self.verdicts.items()],
            "first_changes": [change.as_json() for change in self.first_changes],
        }


def compare(new: Path, old: Path, changes: Path | None = None) -> Comparison:
    """Compare two files that `verigym grade` wrote, and return the counts and the first changes.

    Args:
        new: the scores of the new grading.
        old: the scores of the old grading.
        changes: a JSONL file to which every change is written; None to write none.

    Raises:
        UsageError: a file cannot be read, was not written by `verigym grade`, or belongs to another input.
    """
    check_paths(new, old, changes)
    found = Comparison(new, old)
    with ExitStack() as stack:
        listing = None
        if changes is not None:
            try:
                listing = stack.enter_context(open(changes, "wb"))
            except OSError as error:
                raise UsageError(f"cannot write --diff-out {changes}: {error.strerror or error}") from None
        for pair in _pairs(found):
            if listing is not None:
                listing.write(json_line(pair.as_json()))
    if not found.both:
        raise UsageError(f"{new} and {old} have no completion in common: they were made from different inputs")
    return found


def check_paths(new: Path, old: Path, changes: Path | None, *inputs: Path) -> None:
    """Check the paths of a comparison before anything is graded: it must not overwrite a file, or compare a file with itself.

    Raises:
        UsageError: a path is unusable; the message names the option.
    """
    if not old.is_file():
        raise UsageError(f"--diff {old}: there is no such file")
    if same_file(new, old):
        raise UsageError(f"--diff {old} is the file that is compared with it; keep the old one, and name another --out")
    for path in (new, old, *inputs):
        if changes is not None and same_file(changes, path):
            raise UsageError(f"--diff-out {changes} would overwrite {path}; choose another")
    if changes is not None and changes.is_file() and not _holds_changes(changes):
        raise UsageError(f"--diff-out {changes} exists and is no list of changes; choose another")


def _holds_changes(path: Path) -> bool:
    """Whether the file is empty or begins with a line of `Change.as_json`: anything else may be a file of the user's."""
    with open(path, "rb") as stream:
        first = stream.readline(1 << 20)
    try:
        line = json.loads(first or b'{"new": 0, "old": 0}')
    except ValueError:
        return False
    return isinstance(line, dict) and line.keys() >= {"new", "old"}


def _pairs(found: Comparison) -> Iterator[Change]:
    """Walk both files, count, and yield what changed."""
    new_lines, old_lines = _lines(found.new), _lines(found.old)
    new, old = next(new_lines, None), next(old_lines, None)
    while new is not None or old is not None:
        if old is None or (new is not None and _place(new) < _place(old)):
            found.only_new += 1
            found.first_alone = found.first_alone or f"{_words(new)} is in {found.new} only"
            new = next(new_lines, None)
        elif new is None or _place(old) < _place(new):
            found.only_old += 1
            found.first_alone = found.first_alone or f"{_words(old)} is in {found.old} only"
            old = next(old_lines, None)
        else:
            if new["completion"] != old["completion"]:
                raise UsageError(
                    f"{_words(new)} holds another completion in {found.new} than in {found.old}: they were made from "
                    f"different inputs; --diff compares gradings of the same completions"
                )
            change = _count(found, Change(new, old))
            if change is not None:
                yield change
            new, old = next(new_lines, None), next(old_lines, None)


def _count(found: Comparison, pair: Change) -> Change | None:
    new, old = pair.new["score"], pair.old["score"]
    found.verdicts[old["status"], new["status"]] += 1
    found.new_graders[str(new.get("grader"))] += 1
    found.old_graders[str(old.get("grader"))] += 1
    agreed = [agrees(pair.new.get("label"), score) for score in (new, old)]
    if None not in agreed:
        found.labelled += 1
        found.new_agrees += agreed[0] is True
        found.old_agrees += agreed[1] is True
    found.other_prompts += pair.new.get("prompt") != pair.old.get("prompt")
    if (new["status"], new["reward"]) == (old["status"], old["reward"]):
        return None
    found.changed += 1
    if len(found.first_changes) < KEPT:
        found.first_changes.append(pair)
    return pair


def _place(line: Mapping[str, Any]) -> tuple[int, int]:
    return line["row"], line["sample_index"]


def _words(line: Mapping[str, Any] | None) -> str:
    return "" if line is None else sample_place(line)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a graded file, checked: numbered by row and sample, in ascending order."""
    last = (-1, -1)
    statuses = {status.value for status in Status}
    try:
        with open(path, "rb") as stream:
            for number, text in enumerate(stream, 1):
                try:
                    line = json.loads(text)
                    if "sample" in line:  # an earlier version's name
                        line["sample_index"] = line.pop("sample")
                    score = line["score"]
                    place = _place(line)
                    fits = all(isinstance(part, int) for part in place) and isinstance(line["completion"], str)
                    if not fits or score["status"] not in statuses or not isinstance(score["reward"], int | float | None):
                        raise ValueError
                except (ValueError, KeyError, TypeError, RecursionError):
                    cut = "; its last line is cut off: give the command that made it again" if text[-1:] != b"\n" else ""
                    raise UsageError(f"{path}, line {number}: not a line of verigym grade{cut}; {WANTED}") from None
                if place <= last:
                    raise UsageError(f"{path}, line {number}: {_words(line)} is not after the line before; was it sorted anew?")
                last = place
                yield line
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
