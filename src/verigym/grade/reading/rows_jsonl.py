"""Strict reader of JSON Lines, or of one JSON document: an array of objects, or an object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from verigym.envs import UsageError, strict_json
from verigym.grade.lines import LineProblem, LineReader
from verigym.grade.reading.records import BadRow, InputRow, bytes_read


class JsonlSource:
    """The rows of a JSONL file, numbered by line, or of a JSON document, which is parsed as a whole.

    A file counts as a JSON document if it begins with `[`, or if its first line is only `{`. In JSONL, blank lines are skipped.
    """

    columns = None

    def __init__(self, lines: LineReader) -> None:
        self.name = lines.name
        self._lines = lines

    def select(self, paths: Sequence[str]) -> None:
        """Do nothing: a line is always parsed as a whole, so no column can be skipped."""

    def fraction(self) -> float | None:
        """Return the fraction of the input read so far, from 0 to 1; None if unknown."""
        return bytes_read(self._lines.raw)

    def __iter__(self) -> Iterator[InputRow | BadRow]:
        start = self._lines.peek().lstrip()
        if start.startswith(b"[") or start.partition(b"\n")[0].strip() == b"{":
            yield from self._document()
            return
        while True:
            try:
                text = self._lines.read()
                if text is None:
                    return
                if not text.strip():
                    continue
                yield InputRow(self._lines.line, self._lines.line, parse_object(text))
            except LineProblem as problem:
                yield BadRow(self._lines.line, self._lines.line, "", str(problem))

    def _document(self) -> Iterator[InputRow | BadRow]:
        try:
            text = self._lines.rest().rstrip()
            value = strict_json.loads(text)
        except UsageError:
            raise
        except json.JSONDecodeError as error:
            place = f"{self.name}, line {error.lineno}"
            first = "an array" if text.lstrip().startswith("[") else "an object of several lines"
            raise UsageError(f"{place}: {_reason(error)}; the file begins with {first}, so it is read as a whole") from None
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        for number, row in enumerate(value if isinstance(value, list) else [value], 1):
            if isinstance(row, dict):
                yield InputRow(number, None, row)
            else:
                yield BadRow(number, None, "", f"expected a JSON object; got {type(row).__name__}")


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` holds.

    Raises:
        LineProblem: `text` is not a JSON object, a key occurs twice, or a number is nan or infinite.
    """
    try:
        value = strict_json.loads(text.rstrip())
    except json.JSONDecodeError as error:
        raise LineProblem(_reason(error)) from None
    except strict_json.NotStrict as error:
        raise LineProblem(str(error)) from None
    except ValueError as error:  # an integer of too many digits
        raise LineProblem(f"not usable JSON: {error}") from None
    if not isinstance(value, dict):
        raise LineProblem(f"expected a JSON object, one a line; got {type(value).__name__}")
    return value


def _reason(error: json.JSONDecodeError) -> str:
    """Return what is wrong and at which column; of a text that was cut off, where it ends."""
    end = len(error.doc) - error.doc.rfind("\n") - 1
    if error.msg.startswith("Unterminated string"):
        return f"not JSON: it ends at column {end}, inside the string that starts at column {error.colno} (cut off?)"
    if error.pos >= len(error.doc):
        return f"not JSON: it ends at column {end} ({error.msg.removesuffix(' at')} behind it: cut off?)"
    return f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
