"""A run that goes on grades what had no verdict again, each once, keeps the others, and loses nothing to a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from verigym.cli import main
from verigym.grade.out_file import sidecar

MODULE = '''
import os, time
from verigym.envs import BaseEnvironment, EnvironmentFailure, Options, Reference, Score

class Word(Reference):
    word: str

class Flaky(BaseEnvironment[Word, Options]):
    """Its back end is down for the prompts that the file `down` lists; `log` says what was judged; it stops after
    five where the file `stops` exists."""

    name, version, reference_type = "flaky", "1", Word

    def judge(self, prompt, reference, completion):
        with open(os.path.join(os.path.dirname(__file__), "log"), "a") as log:
            log.write(prompt.text + "\\n")
        with open(os.path.join(os.path.dirname(__file__), "log")) as log:
            judged = len(log.readlines())
        if os.path.exists(os.path.join(os.path.dirname(__file__), "stops")) and judged > 5:
            time.sleep(600)
        with open(os.path.join(os.path.dirname(__file__), "down")) as down:
            if prompt.text in down.read().split():
                raise EnvironmentFailure("backend", "the dictionary is down")
        return Score.correct() if completion.text == reference.word else Score.incorrect()

    def gold(self, prompt):
        return self.reference(prompt).word
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flaky_words.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "flaky_words", raising=False)
    rows = [{"prompt": f"p{i}", "word": "a", "completion": "a" if i % 3 else "b"} for i in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def down(folder: Path, *numbers: int) -> None:
    (folder / "down").write_text(" ".join(f"p{i}" for i in numbers))
    (folder / "log").write_text("")


def judged(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def arguments(folder: Path, out: str = "out.jsonl", *more: str) -> list[str]:
    files = [str(folder / "in.jsonl"), "--out", str(folder / out)]
    return ["grade", *files, "--env", "flaky_words:Flaky", "--workers", "0", *more]


def lines(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found:
        del line["score"]["seconds"]
    return found


def wanted(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run in which nothing failed."""
    down(folder)
    assert main(arguments(folder, "whole.jsonl")) == 0
    return lines(folder / "whole.jsonl")


def test_exactly_what_had_no_verdict_is_graded_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = wanted(folder)
    down(folder, 3, 4, 39)
    assert main(arguments(folder)) == 1
    error = capsys.readouterr().err
    assert "warning: 3 of 40 completions have no verdict; the same command tries them again: the first cause, line 4" in error
    assert "backend: the dictionary is down" in error
    first = lines(folder / "out.jsonl")
    down(folder, 39)
    assert main(arguments(folder)) == 1
    shown = capsys.readouterr()
    assert "note: 3 of 40 lines of " in shown.err and "have no verdict and are graded again" in shown.err
    assert "40 (37 graded before, 3 without a verdict graded again)" in shown.out
    assert judged(folder) == ["p3", "p4", "p39"]
    down(folder)
    assert main(arguments(folder)) == 0
    assert judged(folder) == ["p39"]
    assert lines(folder / "out.jsonl") == whole != first
    assert not sidecar(folder / "out.jsonl", "retried.jsonl").exists()
    runs = json.loads(sidecar(folder / "out.jsonl", "meta.json").read_text())["runs"]
    assert sum(run.get("retried", 0) for run in runs) == 4
    down(folder)
    assert main(arguments(folder)) == 0
    assert judged(folder) == []
    assert "graded again" not in capsys.readouterr().err.splitlines()[-1:]


def test_retries_and_new_rows_in_one_run(folder: Path) -> None:
    whole = wanted(folder)
    down(folder, 0, 5)
    assert main(arguments(folder)) == 1
    out = folder / "out.jsonl"
    text = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(text[:20]) + text[20][:30])  # killed in its 21st line
    down(folder)
    assert main(arguments(folder)) == 0
    assert judged(folder) == ["p0", "p5", *(f"p{i}" for i in range(20, 40))]
    assert lines(out) == whole


def test_a_retry_that_was_killed_at_any_byte_of_its_journal_goes_on(folder: Path) -> None:
    whole = wanted(folder)
    down(folder, 1, 2, 7)
    assert main(arguments(folder)) == 1
    out = folder / "out.jsonl"
    before, meta = out.read_bytes(), sidecar(out, "meta.json").read_bytes()
    scored = [whole[i] | {"score": whole[i]["score"] | {"seconds": 0.5}} for i in (1, 2)]
    entries = [json.dumps({"replaces": i, "by": line}) for i, line in zip((2, 3), scored, strict=True)]
    journal = "".join(entry + "\n" for entry in entries).encode()
    ends = [len(entries[0]) + 1, len(journal)]
    for size in (0, 1, ends[0] - 1, ends[0], ends[0] + 9, ends[1]):
        out.write_bytes(before)
        sidecar(out, "meta.json").write_bytes(meta)
        sidecar(out, "retried.jsonl").write_bytes(journal[:size])
        sidecar(out, "partial").write_bytes(b"half a merge")
        down(folder)
        assert main(arguments(folder)) == 0
        assert judged(folder) == ["p1", "p2", "p7"][sum(size >= end for end in ends) :]
        assert lines(out) == whole
        assert not sidecar(out, "retried.jsonl").exists() and not sidecar(out, "partial").exists()


def test_a_merge_that_was_killed_before_its_journal_went_is_done_once_more(folder: Path) -> None:
    whole = wanted(folder)
    out = folder / "whole.jsonl"
    entry = {"replaces": 2, "by": json.loads(out.read_text().splitlines()[1])}
    sidecar(out, "retried.jsonl").write_text(json.dumps(entry) + "\n")
    down(folder)
    assert main(arguments(folder, "whole.jsonl")) == 0
    assert judged(folder) == [] and lines(out) == whole


def test_killed_while_it_retries(folder: Path) -> None:
    whole = wanted(folder)
    down(folder, *range(0, 40, 2))
    assert main(arguments(folder)) == 1
    down(folder)
    (folder / "stops").touch()
    out = folder / "out.jsonl"
    command = [sys.executable, "-m", "verigym", *arguments(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal, deadline = sidecar(out, "retried.jsonl"), time.monotonic() + 600
    while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n")
    assert 3 <= done <= 5 and len(lines(out)) == 40
    (folder / "stops").unlink()
    down(folder)
    assert main(arguments(folder)) == 0
    assert judged(folder) == [f"p{i}" for i in range(0, 40, 2)][done:]
    assert lines(out) == whole


def test_a_journal_of_another_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down(folder, 1)
    assert main(arguments(folder)) == 1
    out = folder / "out.jsonl"
    before = out.read_bytes()
    entry = {"replaces": 2, "by": json.loads(out.read_text().splitlines()[0])}
    sidecar(out, "retried.jsonl").write_text(json.dumps(entry) + "\n")
    assert main(arguments(folder)) == 2
    assert "is not of" in capsys.readouterr().err and out.read_bytes() == before
    assert main(arguments(folder, "out.jsonl", "--overwrite")) == 1
    assert not sidecar(out, "retried.jsonl").exists()


def test_a_link_to_the_output_stays_one(folder: Path) -> None:
    whole = wanted(folder)
    down(folder, 1)
    assert main(arguments(folder)) == 1
    (folder / "link.jsonl").symlink_to(folder / "out.jsonl")
    for kind in ("meta.json",):
        sidecar(folder / "link.jsonl", kind).write_bytes(sidecar(folder / "out.jsonl", kind).read_bytes())
    down(folder)
    assert main(arguments(folder, "link.jsonl")) == 0
    assert (folder / "link.jsonl").is_symlink() and lines(folder / "out.jsonl") == whole


def test_nothing_scored_has_an_exit_code_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down(folder, *range(40))
    assert main(arguments(folder)) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: no completion has a verdict; the same command tries them again: the first cause, line 1")
    assert "the dictionary is down" in error
    down(folder)
    assert main(arguments(folder)) == 0


def test_an_unusable_gold_is_not_graded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"prompt": "1+1?", "answer": "\\frac{", "completion": "\\boxed{2}"}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    command = ["grade", str(tmp_path / "in.jsonl"), "--env", "math", "--out", str(tmp_path / "out.jsonl"), "--workers", "0"]
    for _ in range(2):
        assert main(command) == 3
        shown = capsys.readouterr()
        assert "gold_invalid" in shown.err and "again" not in shown.err + shown.out
