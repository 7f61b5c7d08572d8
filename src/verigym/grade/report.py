"""Prints the summary of a grading: as a table on a terminal, else as plain lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from verigym.envs.option_trials import as_arguments
from verigym.grade.agreement import Agreement
from verigym.grade.job import Outcome
from verigym.grade.reading.records import place
from verigym.grade.summary import AtK, Summary
from verigym.grade.tasks import Joined
from verigym.terminal import printable

SHOWN_IDS = 8


def show(outcome: Outcome) -> None:
    """Print the summary in `outcome` to standard output."""
    from verigym.envs.console import open_console, print_table

    rows = summary_rows(outcome)
    console = open_console()
    if not console.is_terminal:
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            print(f"{name:<{width}}  {value}")
        return
    from rich.table import Table
    from rich.text import Text  # text is shown as it is: a column may be called [bold]

    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    print_table(table)


def summary_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the summary in `outcome` as (name, value) pairs of text."""
    summary = outcome.summary
    before = [f"{outcome.already_done:,} graded before"] if outcome.already_done else []
    before += [f"{outcome.retried:,} without a verdict graded again"] if outcome.retried else []
    rows = [("completions", f"{summary.n:,}" + (f" ({', '.join(before)})" if before else ""))]
    if outcome.columns.completions != ("completion",) and len(outcome.columns.completions) == 1:
        rows.append(("  column", outcome.columns.completions[0]))
    if outcome.chosen_options:
        rows.append(
            (
                "  read with",
                f"{as_arguments(outcome.chosen_options)}  (told from the first samples)",
            )
        )
    if outcome.joined is not None:
        rows += _joined(outcome.joined)
    accuracy = _number(summary.accuracy)
    if summary.accuracy_interval is not None:
        low, high = summary.accuracy_interval
        accuracy += f"  [{low:.4f}, {high:.4f}] 95%, over {summary.groups:,} groups"
    rows.append(("accuracy", accuracy))
    if len(summary.accuracy_by_column) > 1:
        counts = summary.scored_by_column
        rows += [(f"  {name}", f"{_number(value)}  of {counts[name]:,}") for name, value in summary.accuracy_by_column.items()]
    rows.append(("mean reward", _number(summary.mean_reward)))
    rows += [(f"  {name}", _number(value)) for name, value in summary.components.items()]
    rows.append(("status", ", ".join(f"{name} {count:,}" for name, count in summary.statuses.items()) or "-"))
    if summary.judge_exceptions:
        rows.append(("judge raised", f"{summary.judge_exceptions:,} of {summary.n:,}: {summary.first_exception}"))
    if summary.ragged:
        rows += _ragged(summary)
    rows += [(f"pass@{at.k}", _at(at, summary.groups)) for at in summary.pass_at]
    rows += [(f"maj@{at.k}", _at(at, summary.groups)) for at in summary.majority_at]
    if outcome.agreement is not None:
        rows += _agreement(outcome.agreement, outcome.disagreements_path)
    if summary.unscored:
        kinds = ", ".join(f"{name} {count:,}" for name, count in summary.errors.items())
        rows.append(("unscored", f"{summary.unscored:,} (in no figure above): {kinds}"))
    if outcome.bad_rows:
        rows.append(("bad rows", f"{outcome.bad_rows:,}, listed in {outcome.bad_path}"))
    rows.append(("scores", str(outcome.summary_path).removesuffix(".summary.json")))
    rows.append(("grader", ", ".join(summary.graders) or "-"))
    rows.append(("seconds", f"{outcome.seconds:.1f}"))
    for one in outcome.nodes:
        rows.append((f"node {one.name}", f"{one.graded:,} graded, {one.rate:,.0f} items a second, {one.state}"))
    return rows


def _agreement(found: Agreement, listed: Path) -> list[tuple[str, str]]:
    """Compare the verdicts with the labels of the input."""
    share = f" ({found.agreed / found.compared:.2%})" if found.compared else ""
    both = f": both right {found.both_right:,}, both wrong {found.both_wrong:,}"
    rows = [(f"label {found.column}", f"the verdict agrees on {found.agreed:,} of {found.compared:,}{share}{both}")]
    kinds = (
        ("  only verdict right", found.only_verdict_right, found.only_verdict_right_at),
        ("  only label right", found.only_label_right, found.only_label_right_at),
    )
    for name, count, at in kinds:
        places = list(dict.fromkeys(place(one.row, one.line) for one in at))
        rows.append((name, f"{count:,}" + (f": {_few(places, count)}" if count else "")))
    if found.compared != found.agreed:
        rows.append(("", f"listed in {listed}"))
    if found.unscored or found.unlabelled:
        rows.append(("  not compared", f"{found.unscored:,} unscored, {found.unlabelled:,} without a label"))
    return rows


def _joined(joined: Joined) -> list[tuple[str, str]]:
    rows = [("tasks", f"{joined.tasks:,} in {joined.data}, {joined.tasks - joined.without_sample:,} with a sample")]
    if joined.without_sample:
        ids = _few(joined.ids_without_sample, joined.without_sample)
        rows.append(("  no sample", f"{joined.without_sample:,} (in no figure below): {ids}"))
    if joined.unknown_ids:
        named = [f"{name} ({count:,})" for name, count in joined.unknown_ids.items()]
        total = sum(joined.unknown_ids.values())
        rows.append(("  unknown ids", f"{total:,} sample{'' if total == 1 else 's'} of {_few(named, len(named))}"))
    return rows


def _few(names: Sequence[str], count: int) -> str:
    more = count - min(len(names), SHOWN_IDS)
    return ", ".join(names[:SHOWN_IDS]) + (f" and {more:,} more" if more > 0 else "")


def _ragged(summary: Summary) -> list[tuple[str, str]]:
    """Say that groups are of different sizes, and which figure weighs what."""
    sizes = [f"{groups:,} with {size:,}" for size, groups in summary.group_sizes.items()]
    return [
        ("groups", f"{summary.groups:,}, ragged: {_few(sizes, len(sizes))} scored samples"),
        ("", "accuracy and mean reward weigh every sample alike, pass@k and maj@k every group"),
    ]


def _at(at: AtK, groups: int) -> str:
    over = f"the {at.groups:,} groups" if at.groups != 1 else "the one group"
    few = "" if at.groups == groups else f"  (over {over} with {at.k} samples or more)"
    return _number(at.value) + few


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def show_hints(outcome: Outcome) -> None:
    """Print the hints about suspicious results to standard error, and the versions that have changed since earlier runs."""
    lines = [line for hint in outcome.hints for line in hint.lines()]
    if outcome.already_done and outcome.other_versions:
        lines.insert(0, f"warning: {outcome.already_done:,} lines were made with other versions: {outcome.other_versions}")
    for line in lines:
        print(printable(line), file=sys.stderr)
