import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from verigym.envs.code.output import difference

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "code_output.jsonl").read_text().splitlines()]
MEGABYTE = 1 << 20


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@cases("whitespace", ["tokens", "lines", "exact"])
@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any], whitespace: Any) -> None:
    found = difference(as_bytes(case["expected"]), as_bytes(case["got"]), whitespace, case.get("tolerance", 0.0))
    assert (found is None) is (whitespace in case["equal"]), str(found)


def test_the_place_is_named() -> None:
    assert str(difference(b"1\n2\n3\n", b"1\n5\n3\n")) == "line 2: expected '2', got '5'"
    assert str(difference(b"1 2 3", b"1\n2\n4", "tokens")) == "word 3: expected '3', got '4'"
    assert str(difference(b"1\n2\n", b"1\n")) == "line 2: expected '2', got nothing"
    assert str(difference(b"1\n", b"1\n2\n")) == "line 2: expected nothing, got '2'"
    assert str(difference(b"a", b"b", "exact")) == "expected 'a', got 'b'"


def test_what_is_shown_is_short_and_printable() -> None:
    shown = str(difference(b"a" * MEGABYTE, b"\x1b[2J\x00\xff" * MEGABYTE))
    assert len(shown) < 250
    assert shown.isprintable() and shown.isascii()


@pytest.mark.slow
@pytest.mark.parametrize("whitespace", ["tokens", "lines", "exact"])
@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
@pytest.mark.parametrize("unit", [b"1 ", b"1\n", b" ", b"\n", b"9", b"\r\n", b"1.", b"e"])
def test_long_output_is_compared_in_little_memory(whitespace: Any, tolerance: float, unit: bytes) -> None:
    times = MEGABYTE // 8 // len(unit)
    expected, got = unit * times + b"x", unit * times + b"y"
    tracemalloc.start()
    found = difference(expected, got, whitespace, tolerance)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert peak < MEGABYTE


def test_integers_of_thousands_of_digits_are_compared_exactly() -> None:
    digits = b"7" * 50_000
    assert difference(digits, digits[:-1] + b"8", "tokens") is not None
    assert difference(digits, digits[:-1] + b"8", "tokens", 1e-30) is None
    assert difference(digits, b"8" + digits[1:], "tokens", 1e-30) is not None
    assert difference(digits, digits + b"7", "tokens", 0.5) is not None
