"""The examples of pages that introduce a part of the library run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs
from patience import HANG_S

ROOT = Path(__file__).resolve().parent.parent


def run(page: str, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    text = (ROOT / "docs" / page).read_text()
    ((language, example),) = re.findall(rf"<!-- example: {name} -->\n```(\w*)\n(.*?)```", text, re.DOTALL)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    (folder / "example.py").write_text(example)  # a file, for what starts processes imports it again
    command = [sys.executable, "example.py"] if language == "python" else ["bash", "-euo", "pipefail", "-c", example]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S)


@pytest.mark.slow
def test_grading_a_file(tmp_path: Path) -> None:
    done = run("grading.md", "grade", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rewards = [json.loads(line)["score"]["reward"] for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert rewards == [1.0, 0.0, 1.0]


@pytest.mark.slow
def test_a_report_of_two_graders(tmp_path: Path) -> None:
    done = run("report.md", "report", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "report: graders.html (0.1 MB, all 8 samples)" in done.stdout
    assert (tmp_path / "graders.html").read_text(encoding="ascii").startswith("<!doctype html>")


@pytest.mark.slow
def test_grading_as_a_reward(tmp_path: Path) -> None:
    done = run("grading.md", "reward", tmp_path)
    assert done.stdout.split("\n") == ["[1.0, 0.0]", "[1.0]", "[None, 1.0, None]", ""], done.stdout + done.stderr
    assert "no reward for row 1" in done.stderr and "and 1 more of 3 rows" in done.stderr, done.stderr


@pytest.mark.slow
def test_rows_for_other_trainers(tmp_path: Path) -> None:
    done = run("adapters.md", "rows", tmp_path)
    assert done.stdout == "[48, 16]\n{0.0, 1.0}\n", done.stdout + done.stderr


@pytest.mark.slow
def test_an_environment_without_tasks_of_its_own_is_checked_with_its_examples(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "own_environment.md").read_text()
    ((whole,),) = [re.findall(r"<!-- example: environment -->\n```python\n(.*?)```", text, re.DOTALL)]
    (method,) = re.findall(r"```python\n(    def examples\(.*?)```", text, re.DOTALL)
    program, count = re.subn(r"    def (make|demonstration)\(.*?(?=\n    def |\Z)", "", whole, flags=re.DOTALL)
    assert count == 2
    program = program.replace("from verigym.envs.contract.generated import GeneratedTasks, Made\n", "")
    program = program.replace("GeneratedTasks[", "BaseEnvironment[").replace(
        "import Completion", "import BaseEnvironment, Completion"
    )
    for name, source in (("without", program), ("given", program + "\n" + method)):
        (tmp_path / f"{name}.py").write_text(source)
    command = [Path(sys.executable).parent / "verigym", "check"]
    runs = [
        subprocess.run([*command, f"{name}:Backwards"], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
        for name in ("without", "given")
    ]
    assert runs[0].returncode == 2 and "give it `examples()`" in runs[0].stderr, runs[0].stdout + runs[0].stderr
    assert runs[1].returncode == 0 and runs[1].stdout.rstrip().endswith("passed"), runs[1].stdout + runs[1].stderr


@pytest.mark.slow
@needs("gcc")
def test_the_sandbox(tmp_path: Path) -> None:
    done = run("sandbox.md", "run", tmp_path)
    assert done.returncode == 0, done.stderr
    first, _, *rest = done.stdout.splitlines()
    assert first == "ok {'out.txt': b'hello!'}"
    assert rest == ["Loaded(names=('calls', 'f'))", "2 4", "True None"]


@pytest.mark.slow
def test_many_runs_at_once(tmp_path: Path) -> None:
    done = run("sandbox.md", "many", tmp_path)
    assert done.stdout == "['0', '1', '4'] time\n", done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", ["format", "shaping", "match", "procedural", "process", "program_of_thought"])
def test_the_first_example_of_a_page_runs_as_it_is_copied(page: str, tmp_path: Path) -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    done = run("cli.md", "json", tmp_path)
    assert done.stdout == "True\nexit code 2, and no document\n", done.stdout + done.stderr


@pytest.mark.slow
def test_packages_are_made(tmp_path: Path) -> None:
    done = run("own_environment.md", "init", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "word-ladder/src/word_ladder/environment.py").is_file()
    assert (tmp_path / "word-shop/src/shop/tools.py").is_file()
