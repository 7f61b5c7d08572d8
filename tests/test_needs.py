"""What was not tested is said in three lines, with what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from needs import NEEDS, lack, needs, require, summary

MODULE = """
from needs import lack, lacking, needs, require

@needs("absent")
def test_marked(): raise AssertionError("ran")

def test_required(): require("absent")

def test_tried(): lack("podman", "it did not start: no")

@lacking("kernel", True, "too old")
def test_condition(): raise AssertionError("ran")

def test_there(): require("python3")
"""
CONFTEST = """
import sys
sys.path.append({support!r})
import needs
needs.NEEDS["absent"] = needs.Need(lambda: "it is not installed", "apt install absent")
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("root_conftest", {root!r})
module = module_from_spec(spec)
spec.loader.exec_module(module)
pytest_runtest_setup = module.pytest_runtest_setup
pytest_terminal_summary = module.pytest_terminal_summary
"""


@pytest.mark.parametrize("parallel", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_end_of_a_run_says_what_was_not_tested(tmp_path: Path, parallel: bool) -> None:
    folder = Path(__file__).parent
    (tmp_path / "conftest.py").write_text(CONFTEST.format(support=str(folder / "support"), root=str(folder / "conftest.py")))
    (tmp_path / "test_some.py").write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs\n")
    how = ["-q", "-c", "pytest.ini", "--basetemp=own", *(["-n", "2"] if parallel else [])]
    command = [sys.executable, "-m", "pytest", *how, "test_some.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("not tested here"))
    told, _, wanting = lines[start].partition(", for want of ")
    assert told == "not tested here: 4 of 5 tests"
    assert sorted(wanting.split(", ")) == ["absent (2)", "kernel (1)", "podman (1)"]
    assert "apt install absent" in lines[start + 1] and NEEDS["podman"].remedy in lines[start + 1]


def test_nothing_is_said_where_all_was_tested() -> None:
    assert summary([], 10) == []


def test_a_misspelt_need_is_a_mistake_and_no_skip() -> None:
    for call in (lambda: needs("bubblwrap"), lambda: require("bubblwrap"), lambda: lack("bubblwrap", "why")):
        with pytest.raises(pytest.UsageError, match=r"\['bubblwrap'\]; the table in tests/support/needs.py has"):
            call()
