"""Reads untrusted text with regular expressions and as JSON, in linear time and without unexpected exceptions."""

from __future__ import annotations

import functools
from typing import Any

from verigym.envs import strict_json
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.extras import install

MOST_PATTERN = 10_000


class JsonProblem(ValueError):
    """The text is no JSON value, in words."""


@functools.lru_cache(maxsize=256)
def _re2(pattern: str) -> Any:
    try:
        import re2
    except ImportError:
        raise EnvironmentFailure("unavailable", f"regular expressions need the package google-re2; {install('re2')}") from None
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    return re2.compile(pattern, options)


def check_pattern(pattern: str) -> None:
    """Refuse a `pattern` that the linear-time engine cannot read. If the engine is not installed, accept any pattern.

    Raises:
        UsageError: `pattern` is longer than `MOST_PATTERN` characters, or has a syntax error, or has a look-around or
            back-reference, which no linear-time engine supports.
    """
    if len(pattern) > MOST_PATTERN:
        raise UsageError(f"the pattern has {len(pattern)} characters; give at most {MOST_PATTERN}")
    try:
        _re2(pattern)
    except EnvironmentFailure:
        return
    except Exception as error:
        words = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise UsageError(f"pattern {pattern!r:.80}: {words}; RE2's syntax is read, without look-around") from None


def full_match(pattern: str, text: str) -> bool:
    """Return whether the whole `text` matches `pattern`, which must have passed `check_pattern`. `.` also matches line breaks.

    Raises:
        EnvironmentFailure: `unavailable`, because google-re2 is not installed.
    """
    return _re2(pattern).fullmatch(encodable(text)) is not None


def search(pattern: str, text: str) -> bool:
    """Return whether some part of `text` matches `pattern`, under the same conditions as `full_match`."""
    return _re2(pattern).search(encodable(text)) is not None


def encodable(text: str) -> str:
    """Return `text` with each lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_json(text: str) -> Any:
    """Return the value of the JSON in `text`, read strictly: no NaN, no infinity, no duplicate key in an object.

    Raises:
        JsonProblem: `text` is not such JSON, or is nested too deeply.
    """
    try:
        return strict_json.loads(text)
    except ValueError as error:
        problem = f"is no JSON: {error}"
        raise JsonProblem(problem if len(problem) <= 200 else f"{problem[:197]}...") from None
