"""`@cases`: parametrize for tables of many quick cases, as one test that lists what fails.

A few milliseconds a test, thrice for the runner's processes, are more than most of these cases take.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

SHOWN = 20


def cases(names: str | tuple[str, ...], values: Iterable[Any], ids: Any = None) -> Callable[[Callable[..., None]], Any]:
    """Decorator with the arguments of `pytest.mark.parametrize`. All cases are run, whichever fail; a case that skips fails."""
    words = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(value, len(words)) for value in values]
    labels = list(ids) if ids is not None and not callable(ids) else [ids(row[0]) if ids else None for row in rows]
    assert rows, "a table without cases tests nothing"
    assert len(labels) == len(rows), f"{len(labels)} ids for {len(rows)} cases"

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**fixtures: Any) -> None:
            failures = []
            for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
                arguments = dict(zip(words, row, strict=True))
                try:
                    function(**arguments, **fixtures)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failures.append(f"{_named(number, label, arguments)}\n    {type(error).__name__}: {error}")
            if failures:
                shown = "\n".join(failures[:SHOWN])
                pytest.fail(f"{len(failures)} of {len(rows)} cases fail; the first are\n{shown}", pytrace=False)

        signature = inspect.signature(function)
        left = [parameter for name, parameter in signature.parameters.items() if name not in words]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _row(value: Any, width: int) -> tuple[Any, ...]:
    if hasattr(value, "marks"):  # pytest.param
        assert not value.marks, "a case cannot be marked; give it a test of its own"
        return tuple(value.values)
    return (value,) if width == 1 else tuple(value)


def _named(number: int, label: Any, arguments: Mapping[str, Any]) -> str:
    return f"case {number}{'' if label is None else f' [{label}]'}: {str(arguments)[:300]}"
