"""What `check_env` found: one row a check, as data and as a plain table."""

from __future__ import annotations

from dataclasses import dataclass


class ConformanceError(Exception):
    """The environment breaks its contract; the message is the table of what failed."""


@dataclass(frozen=True)
class Row:
    """One check over all sample prompts."""

    name: str
    passed: bool
    expected: str
    got: str
    why: str = ""


@dataclass(frozen=True)
class Report:
    """All checks of one environment."""

    grader: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(row.passed for row in self.rows)

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that did not."""
        return tuple(row for row in self.rows if not row.passed)

    def raise_if_failed(self) -> None:
        """Raise ConformanceError with the failures, if there are any."""
        if not self.passed:
            raise ConformanceError(f"{self.grader} breaks its contract:\n{_table(self.failures)}")

    def __str__(self) -> str:
        verdict = "passed" if self.passed else f"{len(self.failures)} of {len(self.rows)} checks failed"
        return f"{_table(self.rows)}\n{self.grader}: {verdict}"


def _table(rows: tuple[Row, ...]) -> str:
    cells = [("", "check", "expected", "got")]
    cells += [("ok" if row.passed else "FAIL", row.name, row.expected, row.got) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    lines = []
    for line, row in zip(cells, (None, *rows), strict=True):
        lines.append("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]))
        if row is not None and not row.passed and row.why:
            lines.append(f"      {row.why}")
    return "\n".join(line.rstrip() for line in lines)
