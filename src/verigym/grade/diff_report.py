"""Prints the comparison of two gradings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verigym.envs import Status
from verigym.grade.diff import Change, Comparison
from verigym.grade.reading.records import sample_place
from verigym.terminal import printable


def show(found: Comparison, changes: Path | None) -> None:
    """Print the counts, the table of verdicts and the first changes in `found` to standard output."""
    for line in lines(found, changes):
        print(printable(line))


def lines(found: Comparison, changes: Path | None = None) -> list[str]:
    """Return the comparison `found` as lines of text.

    Args:
        found: the comparison.
        changes: the file that lists all changes, to be mentioned in the text; None if there is none.
    """
    agreed = found.both - sum(count for (old, new), count in found.verdicts.items() if old != new)
    shown = [
        f"old {found.old}: {_graders(found.old_graders)}",
        f"new {found.new}: {_graders(found.new_graders)}",
        f"same verdict: {agreed:,} of {found.both:,} ({agreed / found.both:.2%})",
        f"right before only: {_flips(found, was=True):,}; right now only: {_flips(found, was=False):,}",
    ]
    if found.labelled:
        shown.append(
            f"agrees with the label on {found.labelled:,} completions: old {found.old_agrees:,} "
            f"({found.old_agrees / found.labelled:.2%}), new {found.new_agrees:,} ({found.new_agrees / found.labelled:.2%})"
        )
    shown += ["", *_table(found.verdicts)]
    if found.other_prompts:
        shown += ["", f"{found.other_prompts:,} completions have another prompt or reference in the two files"]
    if found.only_new or found.only_old:
        shown += ["", f"only in new: {found.only_new:,}; only in old: {found.only_old:,} (the first: {found.first_alone})"]
    if found.changed:
        shown += ["", f"{found.changed:,} changed:"]
        shown += [line for change in found.first_changes for line in _described(change)]
        more = found.changed - len(found.first_changes)
        if more:
            shown.append(f"... and {more:,} more{f' in {changes}' if changes else ' (--diff-out FILE lists all)'}")
    return shown


def _flips(found: Comparison, *, was: bool) -> int:
    right = Status.CORRECT.value
    return sum(n for (old, new), n in found.verdicts.items() if old != new and (old if was else new) == right)


def _graders(counts: Counter[str]) -> str:
    return ", ".join(sorted(counts))


def _table(verdicts: Mapping[tuple[str, str], int]) -> list[str]:
    """Return the counts, old status by new status, where either occurs."""
    seen = {status for pair in verdicts for status in pair}
    names = [status.value for status in Status if status.value in seen]
    rows = [["old \\ new", *names]]
    rows += [[old, *(f"{verdicts.get((old, new), 0):,}" for new in names)] for old in names]
    widths = [max(len(row[index]) for row in rows) for index in range(len(names) + 1)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _described(change: Change) -> list[str]:
    label = {"True": ", labelled right", "False": ", labelled wrong"}.get(str(change.new.get("label")), "")
    head = f"{sample_place(change.new)}: {_verdict(change.old)} -> {_verdict(change.new)}{label}"
    return [head, f"  old: {_why(change.old)}", f"  new: {_why(change.new)}"]


def _verdict(line: Mapping[str, Any]) -> str:
    score = line["score"]
    reward = score["reward"]
    return f"{score['status']}" + ("" if reward is None or reward in (0, 1) else f" {reward:g}")


def _why(line: Mapping[str, Any]) -> str:
    score = line["score"]
    answer = score.get("answer")
    said = "" if answer is None else f"answer {str(answer)[:100]!r}: "
    return f"{said}{str(score.get('reason') or '-')[:200]}"
