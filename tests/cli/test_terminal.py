"""What is shown on terminals, narrow ones and plain ones, and in pipes: escape codes, tables, progress."""

from __future__ import annotations

import io
import itertools
import json
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from commands import Path as Words
from commands import commands
from patience import HANG_S
from rich.table import Table
from rich.text import Text
from terminals import ESCAPE, environment, on_a_terminal
from warm_python import warm_python

from verigym.cli import main
from verigym.envs.console import is_plain, open_console, print_table
from verigym.envs.progress import Progress, duration, rate

SHOWN = {
    "help": ("--help",),
    "help of a command": ("grade", "--help"),
    "mistake": ("chek",),
    "list": ("envs",),
    "table": ("suite", "check", "quickstart", "--golds", "1"),
    "grading": ("grade", "rows.jsonl", "--env", "math", "--workers", "0", "--overwrite"),
    "comparing": ("bench", "math", "cases.jsonl"),
    "layers": ("sandbox", "doctor"),
}
PLAIN = {"NO_COLOR": {"NO_COLOR": "1", "TERM": "xterm-256color"}, "dumb": {"TERM": "dumb"}}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    row = {"prompt": "2+2?", "answer": "4", "completion": r"\boxed{4}"}
    (folder / "rows.jsonl").write_text("".join(json.dumps({**row, "prompt": str(number)}) + "\n" for number in range(30)))
    (folder / "cases.jsonl").write_text('{"gold": "4", "pred": "4", "expected": true}\n')
    return folder


def verigym(*arguments: str) -> list[str]:
    """Return the command line of a command, in a process that has imported the trainer; it has neither typer nor rich."""
    return [*warm_python(), "-m", "verigym", *arguments]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), list(zip(SHOWN, itertools.cycle(PLAIN), strict=False)))
def test_no_escape_code_on_a_plain_terminal(name: str, kind: str, work: Path) -> None:
    _, shown = on_a_terminal(verigym(*SHOWN[name]), work, PLAIN[kind])
    assert shown.strip() and ESCAPE not in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["help", "table"])
def test_colours_elsewhere(name: str, work: Path) -> None:
    _, shown = on_a_terminal(verigym(*SHOWN[name]), work, {"TERM": "xterm-256color"})
    assert ESCAPE in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_no_escape_code_in_pipes(name: str, work: Path) -> None:
    """Of a CI system too, for which typer by itself writes colours into pipes."""
    variables = environment(TERM="xterm-256color", GITHUB_ACTIONS="true")
    done = subprocess.run(verigym(*SHOWN[name]), cwd=work, env=variables, capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout + done.stderr).strip() and ESCAPE not in done.stdout + done.stderr


@pytest.mark.slow
def test_force_color_in_a_pipe(work: Path) -> None:
    command = verigym("--help")
    for more, expected in ({}, True), ({"NO_COLOR": "1"}, False):
        variables = environment(TERM="xterm-256color", FORCE_COLOR="1", **more)
        done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, timeout=HANG_S)
        assert (ESCAPE in done.stdout) is expected


@pytest.mark.parametrize(
    ("variables", "plain"),
    [({}, False), ({"NO_COLOR": ""}, False), ({"NO_COLOR": "0"}, True), ({"TERM": "dumb"}, True), ({"TERM": "Unknown"}, True)],
)
def test_what_makes_a_terminal_plain(variables: dict[str, str], plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_plain() is plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert open_console().is_terminal is not plain


def shown_help(words: Words) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main([*words, "--help"]) == 0
    return out.getvalue()


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


@pytest.mark.slow
def test_help_keeps_its_numbers_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wide = {words: numbers(shown_help(words)) for words in commands()}
    monkeypatch.setenv("COLUMNS", "40")
    narrow = {words: numbers(shown_help(words)) for words in commands()}
    assert {words: found - narrow[words] for words, found in wide.items() if found - narrow[words]} == {}


@pytest.mark.parametrize("columns", [10, 40, 79, 200])
def test_a_table_keeps_its_words_on_a_narrow_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    table = Table("source", "tasks", "prompt tokens", "s a verdict", "a rather long remark on it", box=None)
    table.add_column("path", overflow="fold")
    cells = ("arithmetic", "1,234,567", "12,345.67", "0.0123", "many words that may be wrapped", "/a/" + "b" * 40)
    table.add_row(*map(Text, cells))
    print_table(table)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert {"arithmetic", "1,234,567", "12,345.67", "0.0123"} <= set(shown.split())
    assert shown.count("b") == 40 + "many words that may be wrapped".count("b")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table", "grading", "comparing"])
def test_commands_keep_their_numbers_on_a_narrow_terminal(name: str, work: Path) -> None:
    found = []
    for columns in (200, 40):
        _, shown = on_a_terminal(verigym(*SHOWN[name]), work, {"NO_COLOR": "1", "TERM": "xterm"}, columns)
        # What differs from run to run is time: seconds and milliseconds have a fraction, and rates follow them.
        found.append(sorted(number for number in numbers(shown) if "." not in number and "," not in number))
        assert "…" not in shown
    if name != "comparing":
        assert found[0] == found[1]


def on_steps(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let each look at the clock take so long."""
    now = iter(range(10_000))
    monkeypatch.setattr("verigym.envs.progress.time.monotonic", lambda: next(now) * seconds)


def test_plain_progress_has_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    on_steps(monkeypatch, 5.0)
    with Progress("judging") as progress:
        for done in range(1, 9):
            progress.of_total(done, 8)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "judging: 2 done, 5.0 s each, 30 s left (25%)",
        "judging: 4 done, 5.0 s each, 20 s left (50%)",
        "judging: 6 done, 5.0 s each, 10 s left (75%)",
        "judging: 8 done, 5.0 s each (100%)",
    ]


def test_what_was_done_before_is_not_in_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    on_steps(monkeypatch, 10.0)
    with Progress("grading") as progress:
        progress.update(1, 0.90)
        progress.update(2, 0.92, ", 1 bad")
    assert capsys.readouterr().err.splitlines()[1] == "grading: 2 done, 10.0 s each, 1 bad, 40 s left (92%)"


def test_quick_work_and_work_of_unknown_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with Progress("judging") as progress:
        progress.of_total(1, 1)
    assert capsys.readouterr().err == ""
    on_steps(monkeypatch, 20.0)
    with Progress("judging") as progress:
        progress.update(1000, None)
    assert capsys.readouterr().err == "judging: 1,000 done, 50/s\n"


@pytest.mark.parametrize(
    ("done", "seconds", "told"),
    [(0, 5, "0/s"), (5, 0, "0/s"), (1000, 10, "100/s"), (30, 10, "3.0/s"), (2, 10, "5.0 s each"), (10**6, 10, "100,000/s")],
)
def test_rates(done: int, seconds: float, told: str) -> None:
    assert rate(done, seconds) == told
    assert duration(seconds) == f"{seconds} s"


SLOW = '''
import random
import time

from verigym import Completion, Options, Prompt, Reference, Score
from verigym.envs.contract.generated import GeneratedTasks, Made


class Number(Reference):
    answer: str


class Slow(GeneratedTasks[Number, Options]):
    """Takes its time."""

    name, version, reference_type = "slow", "1", Number

    def make(self, rng: random.Random) -> Made:
        number = rng.randrange(10**6)
        return Made(f"{number}+1?", str(number + 1))

    def judge(self, prompt: Prompt, reference: Number, completion: Completion) -> Score:
        time.sleep(0.02)
        return Score.correct() if completion.text == reference.answer else Score.incorrect()

    def gold(self, prompt: Prompt) -> str:
        return self.reference(prompt).answer
'''
LONG = {
    "check": ("check", "slow:Slow", "--total-s", "100"),
    "grade": ("grade", "slow.jsonl", "--env", "slow:Slow", "--workers", "0", "--overwrite"),
    "validate": ("validate", "slow.yaml", "--data-dir", ".", "--workers", "0"),
    "scratch": ("pipeline", "run", "recipe.yaml"),
}
RECIPE = """output: out
defaults: {device: cpu}
stages:
  - {name: base, kind: scratch, demonstrations: [{environment: arithmetic, options: {digits: 1}}], texts: 20, vocabulary: 300,
     hidden_size: 16, layers: 1, heads: 2, intermediate_size: 16}
  - {name: start, kind: sft, model: "stage:base", demonstrations: [{environment: arithmetic, options: {digits: 1}}], steps: 60}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_progress_on_a_terminal(name: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    rows = [{"prompt": f"{number}+1?", "answer": str(number + 1), "completion": str(number + 1)} for number in range(150)]
    (tmp_path / "slow.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "slow.yaml").write_text(
        "name: slow\ndescription: Sums.\nlicence: CC0-1.0\nurl: https://example.org\nfiles: {train: slow.jsonl}\n"
        "environment: slow:Slow\ncolumns: {prompt: string, answer: string, completion: string}\n"
        'prompt: "{prompt}"\nreference: {answer: {column: answer}}\n'
    )
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    code, shown = on_a_terminal(verigym(*LONG[name]), tmp_path, {"TERM": "xterm-256color"}, 160)
    assert code in (0, 1), shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"\d(?:/s| s each)", text) and re.search(r"\d (?:s|min) left", text), text[-2000:]


@pytest.mark.slow
def test_progress_on_a_plain_terminal_is_lines(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    code, shown = on_a_terminal(verigym(*LONG["scratch"]), tmp_path, {"TERM": "xterm", "NO_COLOR": "1"}, 160)
    assert code == 0 and ESCAPE not in shown
    assert re.search(r"steps? (\d+ to )?60 of 60: .* s a step", shown), shown


def test_there_is_one_place_that_opens_consoles_and_one_that_draws_bars() -> None:
    root = Path(__file__).parents[2]
    folders = (
        "src/verigym/cli",
        "src/verigym/grade",
        "src/verigym/bench",
        "src/verigym/report",
        "envs",
        "datasets_cfg",
        "trainer",
        "sandbox",
    )
    opening = re.compile(r"\bConsole\(|from rich\.progress import|rich\.print\b")
    found = {
        str(path.relative_to(root))
        for name in folders
        for path in (root / name).rglob("*.py")
        if opening.search(path.read_text())
    }
    assert found == {"envs/console.py", "envs/progress.py"}
