"""The catalogue against a real Lean, named by the variable LEAN4_BIN: sandbox, compiler and judge. Without one, all of it
skips. The guard of slots is left out on purpose: the judge must refuse alone.

A cold build of Lean may take a minute a case; `-k "A1 or F3"` picks.
"""

from __future__ import annotations

import fnmatch
import functools
import os
from pathlib import Path
from typing import Any

import pytest
from lean_cases import ROWS, submission
from needs import lack, lacking

from verigym.envs.lean.compile import LeanBox
from verigym.envs.lean.completion import Refused
from verigym.envs.lean.judging import Checker
from verigym.envs.lean.task import LeanLimits, LeanReference
from verigym.envs.lean.toolchain import VARIABLE, find_toolchain, numbers

RUNAWAY = LeanLimits(wall_s=240, cpu_s=45, memory_mb=6144)
ROOMY = LeanLimits(wall_s=900, cpu_s=300, memory_mb=6144)

pytestmark = [
    pytest.mark.lean,
    pytest.mark.slow,
    lacking("lean", not os.environ.get(VARIABLE), f"none is named by {VARIABLE}"),
]


@functools.cache
def checker() -> Checker:
    return Checker(LeanBox(find_toolchain()), ROOMY)


def lacking(need: str) -> str:
    """Return what a case needs and this Lean has not, or nothing."""
    toolchain = checker().box.toolchain
    if need.startswith("lean>="):
        least, found = numbers(f"{need.removeprefix('lean>=')}.0"), numbers(toolchain.version)
        return need if least and found and found < least else ""
    if need == "mathlib":
        return "" if any("athlib" in path for path in toolchain.lean_path) else "Mathlib"
    if need == "cadical":
        return "" if Path(toolchain.lean).with_name("cadical").exists() else "cadical"
    return ""


def verdict(row: dict[str, Any]) -> str:
    limits = RUNAWAY if row["group"] == "E" else ROOMY
    reference = LeanReference(
        name=row["name"], statement=row["statement"], header=row["header"], mode=row["mode"], limits=limits
    )
    found = submission(row)
    if isinstance(found, Refused):
        return "LIMIT/input" if found.reason == "too_long" else "REJECT/format"
    return checker().check(reference, found).label


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_case_of_the_catalogue_gets_its_verdict(row: dict[str, Any]) -> None:
    missing = ", ".join(filter(None, map(lacking, row["needs"])))
    if missing:
        lack("lean", f"this Lean lacks {missing}")
    label = verdict(row)
    assert any(fnmatch.fnmatchcase(label, pattern) for pattern in row["expected"].split("|")), (
        f"{label}, expected {row['expected']}: {row['note']}"
    )
