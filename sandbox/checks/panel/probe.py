"""The `Probe` type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["print", "file", "call", "assert", "unittest"]
Expected = Literal["accepted", "rejected", "time", "memory", "output", "runtime", "no leak"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A program and its expected result. Every program, except attempts to escape, computes twice a given number."""

    name: str
    source: str
    expected: Expected
    form: Form = "print"
    """print, file: reads n, writes 2n to standard output or to `output.txt`; call, assert, unittest: `f(n)` returns 2n.
    With `no leak` the program is run twice and reports what it reached in lines with LEAK."""
    language: str = "python"
    group: str = ""
