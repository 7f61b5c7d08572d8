"""JSON Lines: one object a line, read strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from verigym.envs import strict_json
from verigym.grade.lines import LineProblem, LineReader
from verigym.grade.rows import BadRow, Row, bytes_read


class JsonlSource:
    """Rows of a JSONL file. Blank lines are skipped; a row's number is its line."""

    columns = None

    def __init__(self, lines: LineReader) -> None:
        self.name = lines.name
        self._lines = lines

    def select(self, paths: Sequence[str]) -> None:
        """Nothing to gain: a line is parsed as a whole."""

    def fraction(self) -> float | None:
        """How much has been read, 0 to 1; None when unknown."""
        return bytes_read(self._lines.raw)

    def __iter__(self) -> Iterator[Row | BadRow]:
        while True:
            try:
                text = self._lines.read()
                if text is None:
                    return
                if not text.strip():
                    continue
                yield Row(self._lines.line, self._lines.line, parse_object(text))
            except LineProblem as problem:
                yield BadRow(self._lines.line, self._lines.line, "", str(problem))


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        LineProblem: it is not one object, a key occurs twice, or a number is nan or infinite.
    """
    try:
        value = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise LineProblem(f"not JSON: {error.msg} at column {error.colno}") from None
    except strict_json.NotStrict as error:
        raise LineProblem(str(error)) from None
    except ValueError as error:  # an integer of too many digits
        raise LineProblem(f"not usable JSON: {error}") from None
    if not isinstance(value, dict):
        raise LineProblem(f"expected a JSON object, one a line; got {type(value).__name__}")
    return value
