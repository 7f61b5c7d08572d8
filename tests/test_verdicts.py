"""The script that prints verdicts to compare interpreters: whole, the same in every process, and able to see a difference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_S

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks/verdicts.py"
PANELS = "code_fences,extract,math_parse,shaping"


def run(seed: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--panels", PANELS, "--texts", "0", "--hostile", "0", "--no-sandbox", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False, env=environment)


def test_every_file_of_cases_has_a_reader() -> None:
    command = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); from verdict_parts.panels import PANELS; print(*PANELS)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(path.stem for path in (ROOT / "tests/cases").glob("*.jsonl"))


@pytest.mark.slow
def test_two_runs_print_the_same_and_a_difference_is_seen(tmp_path: Path) -> None:
    out = tmp_path / "verdicts.jsonl"
    first = run(1, "--out", str(out))
    assert first.returncode == 0, first.stderr
    lines = out.read_text().splitlines()
    assert len(lines) > 1500 and lines == sorted(lines)
    again = run(2, "--compare", str(out))
    assert again.returncode == 0, again.stdout
    assert again.stdout.splitlines() == [first.stdout.strip(), f"0 lines only here, 0 only in {out}"]
    out.write_text("\n".join([*lines[1:], "{}"]) + "\n")
    other = run(3, "--compare", str(out))
    assert other.returncode == 1
    assert other.stdout.splitlines()[1:] == [f"+ {lines[0]}", "- {}", f"1 lines only here, 1 only in {out}"]


@pytest.mark.slow
def test_every_row_of_the_short_panels_is_read() -> None:
    short = "process match judge judge_replies format language puzzles constraints_ifeval constraints_ifbench"
    done = run(0, "--panels", short.replace(" ", ","))
    assert done.returncode == 0, done.stderr


def test_a_panel_that_is_not_there_is_named() -> None:
    done = run(0, "--panels", "maths")
    assert done.returncode == 2 and "no cases named maths" in done.stderr
