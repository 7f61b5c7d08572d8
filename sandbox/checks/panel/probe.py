"""What a probe is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["print", "file", "call", "assert", "unittest"]
Expected = Literal["accepted", "rejected", "time", "memory", "output", "runtime", "no leak"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A program and what must come of it. All but the escapes are asked for twice a number."""

    name: str
    source: str
    expected: Expected
    form: Form = "print"
    """print, file: reads n, writes 2n to standard output or to `output.txt`; call, assert, unittest: `f(n)` returns 2n.
    With `no leak` the program is run twice and itself says, in a line with LEAK, what it got hold of."""
    language: str = "python"
    group: str = ""
