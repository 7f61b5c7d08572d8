"""The walk-through of docs/own_environment.md: a newcomer adds an environment with one file. Its lines run as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/own_environment.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\w+) -->\n```\w*\n(.*?)```", PAGE, re.DOTALL))


def verigym(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # A process of its own: the file's class is looked for in the folder in which the command is typed.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "verigym", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_newcomer_adds_an_environment_with_one_file(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(EXAMPLES["environment"], encoding="utf-8")
    (tmp_path / "words.yaml").write_text(EXAMPLES["pipeline"], encoding="utf-8")
    commands = [shlex.split(line) for line in EXAMPLES["commands"].splitlines()]
    assert [command[:2] for command in commands] == [["verigym", "envs"], ["verigym", "check"], ["verigym", "pipeline"]]
    shown = []
    for command in commands:
        done = verigym(command[1:], tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        shown.append(done.stdout)
    assert "options.letters: default 3. How many a word has." in shown[0]
    assert "FAIL" not in shown[1] and "gold" in shown[1]
    manifest = json.loads((tmp_path / "runs/words/manifest.json").read_text())
    assert [stage["name"] for stage in manifest["stages"]] == ["base", "start", "rl", "held-out"]
    held_out = manifest["stages"][-1]
    assert list(held_out["inputs"]["graders"]) == ["words"]
    assert held_out["inputs"]["graders"]["words"].startswith("backwards@1+")
    assert set(held_out["figures"]) == {"start/words", "rl/words"}
