"""What `check_env` found: one row a check, as data; as a plain table, in which failures of one cause are one entry."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_CHARS, TAIL_CHARS = 120, 40


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
    text: str = ""
    """The completion that fails it, escaped and shortened; empty where the check is about no text."""
    prompt: str = ""
    """The question that it answers, escaped and shortened."""
    cause: str = ""
    """What failures that belong together share; empty where a failure stands alone."""


@dataclass(frozen=True)
class Cause:
    """Failures that belong together."""

    example: Row
    """The first of them."""
    names: tuple[str, ...]
    """The names of all of them."""


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

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The failures by what caused them, in the order of the rows."""
        found: dict[str, list[Row]] = {}
        for row in self.failures:
            found.setdefault(row.cause or f"\0{row.name}", []).append(row)
        return tuple(Cause(rows[0], tuple(row.name for row in rows)) for rows in found.values())

    def raise_if_failed(self) -> None:
        """Raise ConformanceError with the failures, if there are any."""
        if not self.passed:
            raise ConformanceError(f"{self.grader} breaks its contract:\n{_table(self.failures, self.causes)}")

    def __str__(self) -> str:
        count, causes = len(self.failures), len(self.causes)
        of = f", {causes} cause{'' if causes == 1 else 's'}" if count > 1 else ""
        verdict = "passed" if self.passed else f"{count} of {len(self.rows)} checks failed{of}"
        return f"{_table(self.rows, self.causes)}\n{self.grader}: {verdict}"


def shown(text: str) -> str:
    """Return a text as a Python literal, of a long one its two ends and its length."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return repr(text)
    return f"{text[:HEAD_CHARS]!r} ... {text[-TAIL_CHARS:]!r} ({len(text):,} characters)"


def _table(rows: tuple[Row, ...], causes: tuple[Cause, ...]) -> str:
    """Return passed checks a line each, and each cause where its first failure stands."""
    led = {id(cause.example): cause for cause in causes}
    entries = [row for row in rows if row.passed or id(row) in led]
    cells = [("", "check", "expected", "got")]
    cells += [("ok" if row.passed else "FAIL", _titled(row, led), row.expected, row.got) for row in entries]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    lines = []
    for line, row in zip(cells, (None, *entries), strict=True):
        lines.append("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]))
        if row is not None and not row.passed:
            lines += [f"      {said}" for said in _details(row, led[id(row)])]
    return "\n".join(line.rstrip() for line in lines)


def _titled(row: Row, led: dict[int, Cause]) -> str:
    more = 0 if row.passed else len(led[id(row)].names) - 1
    return f"{row.name} (and {more} more)" if more else row.name


def _details(row: Row, cause: Cause) -> list[str]:
    details = [("text", row.text), ("prompt", row.prompt), ("why", row.why), ("also", "; ".join(cause.names[1:]))]
    return [f"{name + ':':<8}{value}" for name, value in details if value]
