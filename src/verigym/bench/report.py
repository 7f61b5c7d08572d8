"""Prints the result tables and the first disagreements of a benchmark, and makes the JSON report."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from typing import Any

from verigym.bench.job import BenchJob, Disagreement, Outcome, described, ordered
from verigym.bench.verdicts import Tally
from verigym.grade.reading.records import place
from verigym.sandbox.cores import usable_cores
from verigym.terminal import printable

ROWS = (
    "rows", "false negatives", "false positives", "no answer", "errors", "limits", "accuracy",
    "median ms", "p95 ms", "p99 ms", "max ms", "rows/s and core",
)  # fmt: skip
NOTE = (
    "False negative: labelled right, not accepted, whatever the reason; false positive: labelled wrong, accepted. "
    "Times are from texts to verdict, one call at a time."
)


def show(outcome: Outcome, job: BenchJob) -> None:
    """Print the tables and the first disagreements to standard output."""
    from verigym.envs.console import open_console

    console = open_console()
    for group in ordered(list(outcome.groups)):
        tallies = outcome.groups[group]
        cells = zip(ROWS, *(_cells(tally) for tally in tallies.values()), strict=True)
        _table(console if console.is_terminal else None, [group, *tallies], [list(row) for row in cells])
    if outcome.groups:
        print(NOTE)
    if outcome.policy_rows_left_out:
        print(f"{outcome.policy_rows_left_out} policy rows left out (--include-policy)")
    _show_disagreements(outcome, job)


def _table(console: Any, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if console is None:
        widths = [max(len(line[index]) for line in (header, *rows)) for index in range(len(header))]
        for line in (header, *rows):
            cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
            print("  ".join(cells).rstrip())
        print()
        return
    from rich.table import Table
    from rich.text import Text  # text is shown as it is: a grader may be called [bold]

    from verigym.envs.console import print_table

    table = Table()
    for index, name in enumerate(header):
        table.add_column(Text(name), justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    print_table(table)


def _cells(tally: Tally) -> list[str]:
    figures = tally.figures()
    latency, rate, accuracy = figures["latency_s"], figures["rows_per_second_and_core"], figures["accuracy"]
    return [
        f"{tally.rows:,}",
        f"{tally.false_negatives:,} of {tally.right:,}",
        f"{tally.false_positives:,} of {tally.wrong:,}",
        f"{tally.no_answers:,}",
        f"{tally.errors:,}",
        f"{tally.limits:,}",
        "-" if accuracy is None else f"{accuracy:.4f}",
        *("-" if latency[name] is None else f"{latency[name] * 1e3:.3f}" for name in ("median", "p95", "p99", "max")),
        "-" if rate is None else f"{rate:,.0f}",
    ]


def _show_disagreements(outcome: Outcome, job: BenchJob) -> None:
    if not outcome.disagreements:
        print("no disagreement: every grader says what the labels say")
        return
    print(f"\n{outcome.disagreements:,} cases on which a grader says other than the label:")
    for found in outcome.first_disagreements:
        for line in _described(found):
            print(printable(line))
    more = outcome.disagreements - len(outcome.first_disagreements)
    if more:
        print(
            f"... and {more:,} more{f' in {job.disagreements}' if job.disagreements else ' (--disagreements FILE lists all)'}"
        )


def _described(found: Disagreement) -> list[str]:
    case = found.case
    golds = " or ".join(_short(gold) for gold in case.golds)
    wanted = "right" if case.expected else "wrong"
    lines = [f"{place(case.row, case.line)}, {case.group}: gold {golds}, answer {_short(case.answer)}, labelled {wanted}"]
    for name, verdict in found.verdicts.items():
        mark = " " if verdict.accepted == case.expected and verdict.kind != "error" else "!"
        lines.append(f"  {mark} {name}: {verdict.kind}{f' ({_short(verdict.reason, 300, False)})' if verdict.reason else ''}")
    return lines


def _short(text: str, length: int = 100, quoted: bool = True) -> str:
    cut = text if len(text) <= length else f"{text[: length // 2]} ... {text[-length // 2 :]}"
    return json.dumps(cut, ensure_ascii=False) if quoted else cut


def report_document(outcome: Outcome, job: BenchJob) -> dict[str, Any]:
    """Return the whole report as a dictionary for JSON, without the disagreements, which have a file of their own."""
    return {
        "input": job.input,
        "options": dict(job.options),
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cores": usable_cores(),
        },
        "interrupted": outcome.interrupted,
        "policy_rows_left_out": outcome.policy_rows_left_out,
        "bad_rows": outcome.bad_rows,
        "first_bad_rows": [described(bad, job.input) for bad in outcome.first_bad],
        "disagreements": outcome.disagreements,
        "groups": {
            group: {name: tally.figures() for name, tally in outcome.groups[group].items()}
            for group in ordered(list(outcome.groups))
        },
    }
