"""A table of cases is one test that runs them all and lists what fails."""

from typing import Any

import pytest
from cases import cases

ran: list[tuple[int, int]] = []


@cases("x", [1, 2])
@cases(("y", "expected"), [(3, 3), pytest.param(4, 4)], ids=["three", "four"])
def test_all_combinations_run_with_fixtures(x: int, y: int, expected: int, tmp_path: Any) -> None:
    assert tmp_path.is_dir() and y == expected
    ran.append((x, y))
    assert len(ran) <= 4


def test_what_fails_is_listed() -> None:
    seen = []

    @cases("x", range(50), ids=str)
    def check(x: int) -> None:
        seen.append(x)
        assert x % 2, "even"

    with pytest.raises(pytest.fail.Exception) as failure:
        check()
    text = str(failure.value)
    assert seen == list(range(50))
    assert text.startswith("25 of 50 cases fail; the first are\ncase 0 [0]: {'x': 0}\n    AssertionError: even")
    assert text.count("case ") == 20


def test_a_case_that_skips_fails() -> None:
    @cases("x", [1])
    def check(x: int) -> None:
        raise pytest.skip.Exception("not here")

    with pytest.raises(pytest.fail.Exception, match="not here"):
        check()


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="tests nothing"):
        cases("x", [])
