"""The README's examples run as they stand, in the order in which they stand."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from patience import HANG_S

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLES = {
    name: (language, text)
    for name, language, text in re.findall(r"<!-- example: (\w+) -->\n```(\w*)\n(.*?)```", README, re.DOTALL)
}


def run_here(name: str, folder: Path) -> str:
    """Run an example in Python in this process and return what it prints."""
    (folder / "example.py").write_text(EXAMPLES[name][1])
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        runpy.run_path(str(folder / "example.py"), run_name="__main__")
    return shown.getvalue()


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    language, text = EXAMPLES[name]
    path = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    if language == "python":
        (folder / "example.py").write_text(text)
        command = [sys.executable, "example.py"]
    else:
        command = ["bash", "-euo", "pipefail", "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S)


def test_every_use_has_an_example() -> None:
    assert list(EXAMPLES) == ["grade", "score", "register", "train", "code", "sandbox"]
    for name, (_, text) in EXAMPLES.items():
        assert len(text.splitlines()) <= 24, name


def test_grade(tmp_path: Path) -> None:
    done = run("grade", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"accuracy +0\.5000", done.stdout)
    assert re.search(r"pass@2 +1\.0000", done.stdout)
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 4


def test_score(tmp_path: Path) -> None:
    first, *rest = run_here("score", tmp_path).splitlines()
    assert first.startswith("1.0 correct boxed")
    assert rest == ["1.0 correct", "1.0 correct", "0.0 incorrect", "0.0 no_answer"]


def test_register(tmp_path: Path) -> None:
    done = run("register", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one-word" in done.stdout
    assert "FAIL" not in done.stdout


@pytest.mark.slow
def test_train(tmp_path: Path, tiny_model: Any, tiny_tokenizer: Any) -> None:
    folder = tmp_path / "runs/quickstart/cold_start"  # the quickstart makes it; any model will do here
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    done = run("train", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs/mixture/final/model.safetensors").exists()
    assert " of 20: " in done.stderr


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@needs("make")
def test_make_knows_its_targets() -> None:
    for target in ("setup", "quickstart", "test", "check", "docs", "bench"):
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_code(tmp_path: Path) -> None:
    assert run_here("code", tmp_path).split() == ["correct", "incorrect"]


@pytest.mark.slow
def test_sandbox(tmp_path: Path) -> None:
    done = run("sandbox", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"only \['bin', .*'usr'.*\] and no network", done.stdout)
    assert re.search(r"level [23]: ", done.stdout)
    assert re.search(r"(\d+) of \1 probes held", done.stdout)
