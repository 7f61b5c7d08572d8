"""The report of `check_env`: one row per check, as data and as a table. The table shows failures with a common cause once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

HEAD_CHARS, TAIL_CHARS = 120, 40


class ConformanceError(Exception):
    """The environment violates its contract. The message is a table of the failed checks."""


@dataclass(frozen=True)
class CheckRow:
    """One check over all sample prompts."""

    name: str
    passed: bool
    expected: str
    got: str
    why: str = ""
    text: str = ""
    """The completion that fails the check, escaped and shortened; empty for a check without completions."""
    prompt: str = ""
    """The question that it answers, escaped and shortened."""
    cause: str = ""
    """Text that is equal for failures with a common cause; empty for a failure that shares its cause with no other."""


@dataclass(frozen=True)
class FailureCause:
    """Failed checks with a common cause."""

    example: CheckRow
    """The first failed check on a completion that is not garbage, since garbage explains least. If all these failed checks are
    on garbage, the first of them."""
    names: tuple[str, ...]
    """Names of all of them, the example's first."""


@dataclass(frozen=True)
class Report:
    """All checks of one environment."""

    grader: str
    rows: tuple[CheckRow, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(row.passed for row in self.rows)

    @property
    def failures(self) -> tuple[CheckRow, ...]:
        """The failed rows."""
        return tuple(row for row in self.rows if not row.passed)

    @property
    def causes(self) -> tuple[FailureCause, ...]:
        """The failures grouped by cause, in the order of the rows."""
        grouped: dict[str, list[CheckRow]] = {}
        for row in self.failures:
            grouped.setdefault(row.cause or f"\0{row.name}", []).append(row)
        return tuple(map(_cause, grouped.values()))

    def raise_if_failed(self) -> None:
        """Raise ConformanceError with the failures, if there are any."""
        if not self.passed:
            raise ConformanceError(f"{self.grader} breaks its contract:\n{_table(self.failures, self.causes)}")

    def __str__(self) -> str:
        return f"{_table(self.rows, self.causes)}\n{self._verdict()}"

    def brief(self) -> str:
        """Return the report with rows for failed checks only. Passed checks are counted by the first word of their names."""
        passed = [row for row in self.rows if row.passed]
        kinds = Counter(row.name.partition(":")[0] for row in passed)
        groups = [f"{count} {kind}" for kind, count in kinds.items() if count > 1]
        others = sum(count for count in kinds.values() if count == 1)
        said = f"ok  {len(passed)} checks: {', '.join([*groups, f'{others} others'])}"
        return "\n".join([*([_table(self.failures, self.causes)] if self.failures else []), said, self._verdict()])

    def _verdict(self) -> str:
        count, causes = len(self.failures), len(self.causes)
        of = f", {causes} cause{'' if causes == 1 else 's'}" if count > 1 else ""
        verdict = "passed" if self.passed else f"{count} of {len(self.rows)} checks failed{of}"
        return f"{self.grader}: {verdict}"


def _cause(rows: list[CheckRow]) -> FailureCause:
    example = next((row for row in rows if not row.name.startswith("garbage")), rows[0])
    return FailureCause(example, (example.name, *(row.name for row in rows if row is not example)))


def shorten(text: str) -> str:
    """Return `text` as a Python literal. For a long text only both ends and the length are shown."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return repr(text)
    return f"{text[:HEAD_CHARS]!r} ... {text[-TAIL_CHARS:]!r} ({len(text):,} characters)"


def _table(rows: tuple[CheckRow, ...], causes: tuple[FailureCause, ...]) -> str:
    """Return a line for each passed check, and an entry for each cause in the place of its first failure."""
    by_example = {id(cause.example): cause for cause in causes}
    entries = [row for row in rows if row.passed or id(row) in by_example]
    cells = [("", "check", "expected", "got")]
    cells += [("ok" if row.passed else "FAIL", _title(row, by_example), row.expected, row.got) for row in entries]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    lines = []
    for line, row in zip(cells, (None, *entries), strict=True):
        lines.append("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]))
        if row is not None and not row.passed:
            lines += [f"      {line}" for line in _details(row, by_example[id(row)])]
    return "\n".join(line.rstrip() for line in lines)


def _title(row: CheckRow, by_example: dict[int, FailureCause]) -> str:
    more = 0 if row.passed else len(by_example[id(row)].names) - 1
    return f"{row.name} (and {more} more)" if more else row.name


def _details(row: CheckRow, cause: FailureCause) -> list[str]:
    details = [("text", row.text), ("prompt", row.prompt), ("why", row.why), ("also", "; ".join(cause.names[1:]))]
    return [f"{name + ':':<8}{value}" for name, value in details if value]
