"""The `Probe` type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["print", "file", "call", "assert", "unittest"]
Expected = Literal["accepted", "rejected", "time", "memory", "output", "runtime", "no leak"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A program for the self-check and its expected result.

    The task of every program is to double a given number, except for attempts to escape.
    """

    name: str
    source: str
    expected: Expected
    form: Form = "print"
    """How the program takes the number n and gives 2n.

    print: reads n from standard input and writes 2n to standard output; file: writes 2n to `output.txt` instead; call, assert,
    unittest: `f(n)` returns 2n. If the expected result is `no leak`, the program does not double numbers. It tries to reach
    what it must not, and prints a line with LEAK for each success. It runs twice, since the second run may find what the first
    has left.
    """
    language: str = "python"
    group: str = ""
