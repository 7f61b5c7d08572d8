"""The live view: what it shows of a log at each moment, on terminals of all kinds."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from pathlib import Path

import pytest
from report_inputs import eval_row, make_run, run_sample, train_row, write_lines
from rich.console import Console

from verigym.cli import main
from verigym.envs import UsageError
from verigym.report.watch.follow import follow
from verigym.report.watch.sparkline import ASCII, BLOCKS, sparkline
from verigym.report.watch.state import RunWatcher, find_run
from verigym.report.watch.view import screen

ESCAPE = "\x1b"


def shown(folder: Path, width: int = 100, *, unicode: bool = True, now: float | None = None) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    console.print(screen(RunWatcher(folder).read(now), width, unicode))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        ([0.0, 1.0], 5, "▁█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, BLOCKS),
        ([0, 0, 2, 2, 4, 4], 3, "▁▅█"),  # means of two; the middle rounds up
        ([1.0, None, 2.0], 3, "▁ █"),
        ([3.0, 3.0], 2, "▄▄"),
        ([None, None], 2, "  "),
        ([], 5, ""),
    ],
)
def test_a_curve_in_one_line(values: list[float | None], width: int, expected: str) -> None:
    assert sparkline(values, width) == expected


def test_a_run_in_its_middle(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "mine", steps=6)
    (folder / "config.json").write_text('{"steps": 10}')
    text = shown(folder, now=(folder / "metrics.jsonl").stat().st_mtime + 5)
    assert "mine  step 6 of 10" in text and "60%" in text
    assert "running, last written 5.00 s ago  3.50 s a step, 14 s left" in text
    assert re.search(r"sums +0\.500 +▄+ +0\.500 +▄+ +9\.0", text), text
    assert "accuracy 0.250 at step 0, 0.500 at 6, best 0.500 at 6" in text
    assert "generate 2.00 s, update 1.00 s" in text and "kl 0.01" in text
    assert "alarms (1)" in text and "step 2: length: longer; read them" in text
    assert re.search(r"correct +1 sums 6\+1\? -> It is 7\.", text), text


def test_evaluations_count_towards_the_time_left(tmp_path: Path) -> None:
    rows = [train_row(step, evaluate_s=6.5 if step == 2 else None) for step in (1, 2)]
    write_lines(tmp_path / "metrics.jsonl", rows)
    (tmp_path / "config.json").write_text('{"steps": 4}')
    state = RunWatcher(tmp_path).read()
    assert state.step_s == 3.5 + 6.5 / 2 and state.left_s == 2 * state.step_s
    assert state.phases["evaluate"] == 3.25


def test_a_finished_run_and_one_that_is_quiet(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    assert "no news for 33 min: has it stopped?" in shown(folder, now=(folder / "metrics.jsonl").stat().st_mtime + 2000)
    (folder / "final").mkdir()
    assert "finished" in shown(folder)


def test_before_the_first_step(tmp_path: Path) -> None:
    assert "waiting for metrics.jsonl" in shown(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    assert "no step yet" in shown(tmp_path)
    write_lines(tmp_path / "metrics.jsonl", [eval_row(0, 0.5)])
    assert "accuracy 0.500 at step 0" in shown(tmp_path)


def test_a_run_that_resumes_is_followed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    watcher = RunWatcher(folder)
    assert watcher.read().step == 6
    rows = [train_row(step) for step in (1, 2, 3)]
    write_lines(tmp_path / "new", rows)
    os.replace(tmp_path / "new", folder / "metrics.jsonl")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write(json.dumps(train_row(4))[:40])
    state = watcher.read()
    assert state.step == 3 and state.restarts == 1 and state.unreadable == 0


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int, tmp_path: Path) -> None:
    text = shown(make_run(tmp_path / "run"), width)
    assert max(map(len, text.splitlines())) <= width


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path) -> None:
    text = shown(make_run(tmp_path / "run"), unicode=False)
    assert text.isascii() and any(level in text for level in ASCII[-2:])


def test_hostile_texts_do_not_reach_the_terminal(tmp_path: Path) -> None:
    bad = "\x1b[2J\x1b]0;x\x07[red]\r\u202e"
    folder = tmp_path / "run"
    write_lines(folder / "metrics.jsonl", [train_row(1, **{f"{bad}/unscored": 0.0, f"{bad}/reward": 0.5})])
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write(json.dumps({"kind": "warning", "step": 1, "name": bad, "seen": bad, "advice": bad}) + "\n")
    write_lines(folder / "samples.jsonl", [run_sample(1, source=bad, prompt=bad, completion=bad, status=bad)])
    text = shown(folder, 200)
    assert not {ESCAPE, "\x07", "\r", "\u202e"} & set(text) and "[red]" in text


def test_the_newest_stage_of_a_folder_is_taken(tmp_path: Path) -> None:
    for name, when in (("sft", 1_000_000), ("grpo", 2_000_000), ("eval", 1_500_000)):
        os.utime(make_run(tmp_path / name) / "metrics.jsonl", (when, when))
    assert find_run(tmp_path).name == "grpo" and find_run(tmp_path / "sft").name == "sft"
    assert find_run(tmp_path / "sft/metrics.jsonl").name == "sft"
    with pytest.raises(UsageError, match="there is no folder"):
        find_run(tmp_path / "none")


def test_it_follows_until_the_run_is_finished_and_writes_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", steps=3)
    (folder / "config.json").write_text('{"steps": 5}')
    looks: list[float] = []

    def grow(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            with (folder / "metrics.jsonl").open("a") as stream:
                stream.write("".join(json.dumps(train_row(step)) + "\n" for step in (4, 5)))
        if len(looks) == 2:
            (folder / "final").mkdir()

    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=50, color_system=None)
    state = follow(folder, console, every_s=0.5, sleep=grow)
    assert state.finished and state.step == 5 and looks == [0.5, 0.5]


def test_without_a_terminal_it_prints_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    folder = make_run(tmp_path / "run")
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert main(["watch", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "step 6 of 6" in text and ESCAPE not in text
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == before
    assert main(["watch", str(tmp_path / "nowhere")]) == 2


def test_no_colours_where_they_are_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, texts = make_run(tmp_path / "run"), {}
    for name in ("colour", "none"):
        if name == "none":
            monkeypatch.setenv("NO_COLOR", "1")
        else:
            monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        stream = io.StringIO()
        follow(folder, Console(file=stream, force_terminal=True, width=80), once=True)
        texts[name] = stream.getvalue()
    assert "\x1b[32m" in texts["colour"] and "\x1b[32m" not in texts["none"]
