"""Cache of verdicts on disk, keyed by grader id, prompt key and completion digest."""

from __future__ import annotations

import logging
import sqlite3
import threading
import weakref
from pathlib import Path

from pydantic import ValidationError

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score

logger = logging.getLogger("verigym.cli.grade")

_APPLICATION_ID = 0x76657269  # "veri": tells our file from another program's database
_BUSY_S = 30.0


class ScoreCache:
    """Cache of verdicts in an SQLite file, which any number of threads and processes may share.

    A damaged file, or a file of another program, is never repaired or overwritten: opening it fails. If damage is found later,
    the cache turns itself off with a warning, since grading can go on without it.

    Raises:
        UsageError: the file is not a verdict cache, is damaged, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"cache {path}: cannot be opened ({error}); choose another path") from None
        try:
            self._prepare(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise UsageError(f"cache {path}: not a usable verdict cache ({error}); delete it or choose another path") from None
        self._connection = connection
        # Environments that hold a cache have no end of their own.
        weakref.finalize(self, connection.close)

    @staticmethod
    def _prepare(connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION_ID and tables:
            raise sqlite3.DatabaseError("it is another program's database")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute("CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, score TEXT) WITHOUT ROWID")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(str(verdict))

    def get(self, key: str) -> Score | None:
        """Return the verdict, None where there is none."""
        row = self._run("SELECT score FROM scores WHERE key = ?", key)
        if row is None:
            return None
        try:
            return Score.model_validate_json(row)
        except ValidationError:  # written by a version whose Score had other fields
            return None

    def put(self, key: str, score: Score) -> None:
        """Store a verdict; errors are never stored."""
        if not score.scored:
            return
        try:
            text = score.model_dump_json()
        except ValueError:  # an answer that holds a lone surrogate has no UTF-8 form
            return
        self._run("INSERT OR REPLACE INTO scores VALUES (?, ?)", key, text)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, statement: str, *values: str) -> str | None:
        with self._lock:
            if self._connection is None:
                return None
            try:
                row = self._connection.execute(statement, values).fetchone()
            except sqlite3.Error as error:
                logger.warning("cache %s: turned off, grading goes on without it: %s", self.path, error)
                self._connection.close()
                self._connection = None
                return None
        return None if row is None else str(row[0])
