"""A summary for people: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from verigym.grade.job import Outcome
from verigym.grade.summary import AtK


def show(outcome: Outcome) -> None:
    """Print the summary to standard output."""
    from rich.console import Console

    rows = summary_rows(outcome)
    console = Console()
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
    console.print(table)


def summary_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the summary as (name, value) in words."""
    summary = outcome.summary
    rows = [
        (
            "completions",
            f"{summary.n:,}" + (f" ({outcome.already_done:,} graded before)" if outcome.already_done else ""),
        )
    ]
    accuracy = _number(summary.accuracy)
    if summary.accuracy_interval is not None:
        low, high = summary.accuracy_interval
        accuracy += f"  [{low:.4f}, {high:.4f}] 95%, over {summary.groups:,} groups"
    rows.append(("accuracy", accuracy))
    if len(summary.accuracy_by_column) > 1:
        rows += [(f"  {name}", _number(value)) for name, value in summary.accuracy_by_column.items()]
    rows.append(("mean reward", _number(summary.mean_reward)))
    rows += [(f"  {name}", _number(value)) for name, value in summary.components.items()]
    rows.append(("status", ", ".join(f"{name} {count:,}" for name, count in summary.statuses.items()) or "-"))
    rows += [(f"pass@{at.k}", _at(at, summary.groups)) for at in summary.pass_at]
    rows += [(f"maj@{at.k}", _at(at, summary.groups)) for at in summary.majority_at]
    if summary.unscored:
        kinds = ", ".join(f"{name} {count:,}" for name, count in summary.errors.items())
        rows.append(("unscored", f"{summary.unscored:,} (in no figure above): {kinds}"))
    if outcome.bad_rows:
        rows.append(("bad rows", f"{outcome.bad_rows:,}, listed in {outcome.bad_path}"))
    rows.append(("grader", ", ".join(summary.graders) or "-"))
    rows.append(("seconds", f"{outcome.seconds:.1f}"))
    return rows


def _at(at: AtK, groups: int) -> str:
    few = "" if at.groups == groups else f"  (over the {at.groups:,} groups with {at.k} samples or more)"
    return _number(at.value) + few


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
