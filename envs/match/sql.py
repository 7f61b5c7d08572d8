"""Kind `sql`: a query is right if it returns the same rows as the right query on every database that the reference sets up.

The model's query runs in this process, in SQLite on a database in memory that is discarded afterwards. SQLite's own means
restrict the query: an authorizer that allows only reading tables and calling pure functions, limits on lengths and depths, and
a limit on the steps of the virtual machine. The query cannot reach the file system or another connection. docs/match.md says
how far these means protect the process.
"""

from __future__ import annotations

import functools
import math
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.match.kind import Kind, MatchReference, Verdict

MOST_ROWS = 10_000
MOST_CHARACTERS = 5_000_000
MOST_STEPS = 1_000_000
STEPS_A_CALL = 100
MOST_SECONDS = 5.0
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# No randomness, no loading, nothing that makes blobs out of a number.
_FUNCTIONS = frozenset(
    "abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime dense_rank exp first_value floor "
    "format glob group_concat hex ifnull iif instr julianday lag last_value lead length like ln log log10 log2 lower ltrim "
    "max min mod nth_value ntile nullif percent_rank pow power printf quote rank replace round row_number rtrim sign sqrt "
    "strftime string_agg substr substring sum time total trim trunc typeof unicode unixepoch upper".split()
)
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})

Row = tuple[Any, ...]


class QueryProblem(Exception):
    """A query that returns no rows to compare. `limit` is set if the query exceeded a limit."""

    def __init__(self, message: str, *, limit: bool = False) -> None:
        super().__init__(message)
        self.limit = limit


@functools.lru_cache(maxsize=32)
def _database(setup: str) -> bytes:
    """Return the database that a trusted script fills.

    Raises:
        EnvironmentFailure: `gold_invalid`, when SQLite refuses the script.
    """
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(setup)
        connection.commit()
        return connection.serialize()
    except sqlite3.Error as error:
        raise EnvironmentFailure("gold_invalid", f"a script in setups fails: {error}") from None
    finally:
        connection.close()


def rows_of(setup: str, query: str) -> list[Row]:
    """Return the rows that the untrusted `query` selects from a database filled by the trusted script `setup`.

    Raises:
        QueryProblem: the query fails, does something forbidden, or exceeds a limit.
        EnvironmentFailure: `gold_invalid`, because the script fails.
    """
    connection = sqlite3.connect(":memory:", check_same_thread=True)
    try:
        connection.deserialize(_database(setup))
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(_authorize)
        calls, deadline = iter(range(MOST_STEPS // STEPS_A_CALL)), time.monotonic() + MOST_SECONDS
        # Steps first, so that the same query ends the same way everywhere; the clock is for steps that are long themselves.
        connection.set_progress_handler(lambda: next(calls, None) is None or time.monotonic() > deadline, STEPS_A_CALL)
        cursor = connection.execute(query)
        if cursor.description is None:
            raise QueryProblem("it selects nothing")
        return _fetched(cursor)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        past = "interrupted" in str(error) or "too big" in str(error)
        raise QueryProblem("it runs past a limit" if past else f"{error}"[:200], limit=past) from None
    except MemoryError:
        raise QueryProblem("it takes too much memory", limit=True) from None
    finally:
        connection.close()


def _fetched(cursor: sqlite3.Cursor) -> list[Row]:
    rows: list[Row] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) > MOST_ROWS or size > MOST_CHARACTERS:
            raise QueryProblem(f"it returns more than {MOST_ROWS} rows or {MOST_CHARACTERS} characters", limit=True)
    return rows


def _authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    if action in _ALLOWED:
        # The schema's own tables are of no use for an answer; their contents tell the constants to print.
        return (
            sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_READ and (first or "").startswith("sqlite_") else sqlite3.SQLITE_OK
        )
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def same_rows(one: Sequence[Row], other: Sequence[Row], *, ordered: bool) -> bool:
    """Return whether two results are equal.

    Real numbers are compared to nine digits and column names ignored; duplicates count.
    """
    if len(one) != len(other) or (one and len(one[0]) != len(other[0])):
        return False
    if not ordered:
        one, other = sorted(one, key=_order), sorted(other, key=_order)
    return all(all(map(_same, a, b)) for a, b in zip(one, other, strict=True))


def _order(row: Row) -> tuple[list[tuple[int, Any]], list[Any]]:
    """Return a sort key under which numbers that differ by rounding alone do not change the order."""
    return [_rank(value) for value in row], [value if isinstance(value, float | int) else 0 for value in row]


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, float | int):
        return 1, float(f"{value:.6g}")
    return (2, value) if isinstance(value, str) else (3, value)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, float | int) and isinstance(other, float | int)
        return numbers and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)


def _check(reference: MatchReference) -> None:
    if not isinstance(reference.answer, str) or not reference.answer.strip():
        raise UsageError(f"field 'answer': kind='sql' needs the right query; got {reference.answer!r:.80}")
    if not reference.setups:
        raise UsageError("field 'setups': kind='sql' needs at least one script that fills a database")


def _judge(reference: MatchReference, answer: str) -> Verdict:
    query = answer.strip().removesuffix(";")
    for number, setup in enumerate(reference.setups, start=1):
        try:
            expected = rows_of(setup, str(reference.answer).strip().removesuffix(";"))
        except QueryProblem as problem:
            raise EnvironmentFailure("gold_invalid", f"the right query fails on database {number}: {problem}") from None
        try:
            rows = rows_of(setup, query)
        except QueryProblem as problem:
            return Verdict(False, f"the query fails on database {number}: {problem}", problem.limit)
        if not same_rows(rows, expected, ordered=reference.ordered):
            return Verdict(False, f"other rows on database {number}")
    return Verdict(True, "the same rows")


def _gold(reference: MatchReference) -> str:
    return str(reference.answer)


SQL = Kind(
    frozenset({"answer", "setups", "ordered"}),
    _check,
    _judge,
    _gold,
    ("fence", "tag"),
    tags=("sql", "sqlite", "sqlite3", "postgresql", "postgres", "mysql"),
)
