"""What judged programs may import is in the record, and a run without numpy says so before it grades."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from verigym.cli import main
from verigym.envs import load
from verigym.envs.code.packages import importable, lacks_numpy
from verigym.envs.composition.operators import WeightedSum
from verigym.grade.out_file import sidecar
from verigym.sandbox.inside.walls import packages

NUMPY = "warning: the programs that are judged cannot import numpy, which is not installed here: one that does is judged wrong"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    row = {"prompt": "1+1?", "answer": "2", "completion": "```python\nprint(2)\n```"}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path / "in.jsonl"


def grade(source: Path, *more: str) -> int:
    out = str(source.with_name("out.jsonl"))
    return main(["grade", str(source), "--out", out, "--workers", "0", "--env", "program_of_thought", *more])


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python with no packages beside it, as far as programs see."""
    monkeypatch.setattr(packages, "installed_in", list)


@pytest.mark.usefixtures("bare")
def test_a_run_without_numpy_begins_with_a_warning(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade(source) == 0
    error = capsys.readouterr().err
    assert error.startswith(NUMPY) and error.count("numpy") == 1 and "pip install 'verigym[code]'" in error
    (run,) = json.loads(sidecar(source.with_name("out.jsonl"), "meta.json").read_text())["runs"]
    assert run["programs_import"] == {}


def test_what_programs_may_import_is_in_the_record(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade(source) == 0
    out = source.with_name("out.jsonl")
    (run,) = json.loads(sidecar(out, "meta.json").read_text())["runs"]
    assert run["programs_import"]["numpy"] == version("numpy")
    assert json.loads(sidecar(out, "summary.json").read_text())["programs_import"] == run["programs_import"]
    assert "numpy" not in capsys.readouterr().err


def test_lines_that_were_made_with_other_packages_are_named(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert grade(source) == 0
    monkeypatch.setattr(packages, "installed_in", list)
    assert grade(source) == 0
    assert "warning: 1 lines were made with other versions: " in (error := capsys.readouterr().err) and "numpy" in error


def test_which_environments_judge_programs() -> None:
    assert importable(load("math")) is None and not lacks_numpy(load("math"))
    code = load("code", backend_options={"packages": ["numpy"]})
    assert importable(code) == {"numpy": version("numpy")}
    assert importable(load("code", backend_options={"packages": False})) == {}
    assert importable(load("code", backend="docker", backend_options={"image": "python"})) is None
    both = WeightedSum({"code": 1.0, "length": 0.1}, environments={"code": code, "length": load("length")})
    assert importable(both) == {"numpy": version("numpy")}


@pytest.mark.usefixtures("bare")
def test_who_chose_packages_is_not_warned() -> None:
    assert lacks_numpy(load("code")) and lacks_numpy(load("program_of_thought"))
    assert not lacks_numpy(load("code", backend_options={"packages": False}))
    assert not lacks_numpy(load("code", backend="docker", backend_options={"image": "python"}))
