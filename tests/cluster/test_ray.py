"""Grading on two real Ray nodes, in a virtual environment of their own: Ray is no dependency of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import lack, needs

ROOT = Path(__file__).resolve().parents[2]
REAL = Path(__file__).parent / "real"
RAY = "ray[default]==2.60.0"
SECONDS = 1200.0
pytestmark = [pytest.mark.slow, needs("ray")]


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """The Python of an environment with Ray; VERIGYM_RAY_VENV names the folder that keeps it."""
    kept = os.environ.get("VERIGYM_RAY_VENV")
    with tempfile.TemporaryDirectory() as made:
        here = Path(kept or made)
        python = here / "bin/python"
        if not (here / ".verigym-ready").exists():
            subprocess.run([sys.executable, "-m", "venv", here], check=True)
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
            try:
                command = [*pip, "--editable", f"{ROOT}[match,code,serve,client,train]", RAY, "psutil"]
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.CalledProcessError as error:
                lack("ray", f"Ray cannot be installed: {error.stderr.strip()[-300:]}")
            (here / ".verigym-ready").touch()
        yield python


@pytest.fixture(scope="module")
def found(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the script says of all its parts."""
    path = os.pathsep.join([str(ROOT / "src"), str(REAL)])
    done = subprocess.run(
        [python, "-P", REAL / "ray_nodes.py"],
        cwd=tmp_path_factory.mktemp("ray"),
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_with_a_node_killed_and_one_added_every_item_has_its_verdict_once(found: Any) -> None:
    assert found["killed_and_added"] == {"right": True, "graded": 6000, "nodes": 3}


def test_hosts_that_are_killed_are_started_again(found: Any) -> None:
    assert found["host_killed"]["right"] and found["host_killed"]["killed"] >= 1


def test_mathematics_programs_and_what_hangs_are_judged_as_without_a_cluster(found: Any) -> None:
    assert found["mixture"] == {"items": 120, "equal": True, "unscored": 2}


def test_an_environment_that_no_node_may_grade_is_refused(found: Any) -> None:
    assert "no node of the cluster may grade 'lean'" in found["refused"] and "lean, sandbox" in found["refused"]


def test_the_command_writes_the_same_scores(found: Any) -> None:
    assert found["command"] == {"equal": True, "lines": 50, "nodes": True}


def test_a_service_on_the_cluster_answers_each_item_once_while_a_node_is_killed(found: Any) -> None:
    assert found["service"] == {"right": True, "accepted": 1.0, "exit": 0}


def test_training_and_evaluation_on_the_cluster_end_as_on_one_machine(found: Any) -> None:
    assert found["pipeline"] == {"equal": True, "learnt": True, "prompts": 20}
