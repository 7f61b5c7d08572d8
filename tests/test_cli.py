import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys

import pytest
from patience import HANG_S, wait_for

from verigym import cli, load
from verigym.cli import main


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in ("grade", "score", "envs", "check", "validate"):
        assert command in shown


def test_help_loads_nothing_heavy():
    program = (
        "import sys; from verigym.cli import main; assert main(['--help']) == 0;"
        "bad = {'torch', 'sympy', 'numpy', 'datasets', 'pyarrow', 'math_verify'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=HANG_S)


def test_version_names_what_verdicts_depend_on(capsys):
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"verigym {importlib.metadata.version('verigym')}"
    shown = dict(line.split(" ") for line in lines)
    assert shown["python"] == platform.python_version()
    assert {name: shown[name] for name in ("sympy", "pydantic")} == {
        name: importlib.metadata.version(name) for name in ("sympy", "pydantic")
    }


def test_envs_lists_names_with_origin(capsys):
    assert main(["envs"]) == 0
    assert "verigym.envs.math.environment:MathEnvironment" in capsys.readouterr().out


def test_adapters_are_listed_with_the_versions_tried(capsys):
    from verigym.adapters.peers import PEERS

    assert main(["adapters"]) == 0
    out = capsys.readouterr().out
    assert all(name in out and peer.module in out and peer.tried in out for name, peer in PEERS.items())
    assert main(["adapters", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {name: one["tried"] for name, one in listed.items()} == {name: peer.tried for name, peer in PEERS.items()}
    assert set(listed["trl"]) >= {"package", "hook", "no_reward", "installed"}


def test_envs_marks_those_that_have_episodes(monkeypatch, capsys):
    monkeypatch.setattr(
        "verigym.envs.available", lambda: {"gone": "no_such_module:Own", "math": "m:M", "number_guessing": "n:N"}
    )
    assert main(["envs"]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["gone", "(UsageError:"],
        ["math", "m:M"],
        ["number_guessing", "interactive"],
    ]
    assert main(["envs", "number_guessing"]) == 0
    assert capsys.readouterr().out.startswith("number_guessing (n:N), interactive\nA game of guessing a hidden whole number")


def test_score_prints_the_whole_score(capsys):
    arguments = ["--env", "math", "--prompt", "2+2?", "--reference", "answer=4", "--completion", r"\boxed{4}"]
    assert main(["score", *arguments]) == 0
    score = json.loads(capsys.readouterr().out)
    assert (score["reward"], score["status"], score["grader"]) == (1.0, "correct", load("math").grader)


def test_score_of_an_unusable_gold_is_no_score(capsys):
    arguments = ["--env", "math", "--prompt", "?", "--reference", r"answer=\frac{1}{", "--completion", r"\boxed{4}"]
    assert main(["score", *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert "correct" not in captured.out and "Traceback" not in captured.err


@pytest.mark.slow
def test_check_prints_the_report(capsys):
    assert main(["check", "format"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"ok  \d+ checks: .*\d+ hack, .*\d+ others", first)
    assert last == f"{load('format').grader}: passed"
    assert main(["check", "format", "--all"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == int(first.split()[1]) + 2 and rows[-1] == last


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek", "math"], "No such command 'chek'"),
        (
            ["grade", "x", "--env", "math", "--timeout", "3"],
            "no option --timeout; did you mean --timeout-s? (see verigym grade --help)",
        ),
        (["grade", "x", "--completion", "c"], "no option --completion; did you mean --completion-column?"),
        (["eval", "m", "--output", "o", "--max-tokens", "3"], "no option --max-tokens; did you mean --max-new-tokens?"),
        (["sandbox", "run", "--lang", "c"], "no option --lang; did you mean --language? (see verigym sandbox run --help)"),
        (["grade", "--zzz"], "no option --zzz (see verigym grade --help)"),
        (["grade"], "(see verigym grade --help)"),
        (["check", "mth"], "did you mean 'math'"),
        (["check", "math", "--option", "x=1"], "unknown field 'x'"),
        (["check", "math", "--option", '{"x": 1}'], "expected NAME=VALUE"),
        (["check", "match", "--option", 'x={"a": 1, "a": 2}'], "--option x: not JSON: "),
        (["score", "--env", "math", "--prompt", "q", "--completion", "c"], "field 'answer' is missing"),
        (["validate", "gsm9k"], "no data set is called 'gsm9k'; did you mean 'gsm8k'"),
        (["validate", "gsm8k", "--split", "tets", "--data-dir", "."], "no local file for split 'tets'; did you mean 'test'"),
        (["validate", "gsm8k", "--data-dir", "nowhere"], "does not exist; is --data-dir nowhere the right folder?"),
        (["validate", "gsm8k:tets", "--data-dir", "."], "no local file for split 'tets'; did you mean 'test'"),
        (["validate", "gsm8k:test", "--split", "train"], "gsm8k:test and --split train name two splits; give one"),
        (["datasets", "show", "gsm8k:test"], "'gsm8k:test' names a split, which does not belong here; give 'gsm8k'"),
        (["validate", "gsm9k:test"], "no data set is called 'gsm9k'; did you mean 'gsm8k'"),
        (["validate", "zzq"], "; `verigym datasets list` lists all"),
        (["check", "zzq"], "; `verigym envs` lists all"),
        (["validate", "gsm8k", "--limit", "0", "--data-dir", "."], "--limit"),
        (["validate", "my.yaml"], "cannot read my.yaml: No such file"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1
    assert len(error) < 400


COMMANDS = ["eval m --output o --suite", "train --config", "suite check", "pipeline run", "validate"]


@pytest.mark.parametrize(("there", "given"), [("mine.yaml", "mine.yml"), ("mine.yml", "mine.yaml"), ("mine.yaml", "mien.yaml")])
@pytest.mark.parametrize("arguments", [command.split() for command in COMMANDS])
def test_a_file_of_another_ending_is_proposed(arguments, there, given, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / there).touch()
    (tmp_path / "mines.yaml").touch()
    assert main([*arguments, given]) == 2
    assert f"cannot read {given}: No such file or directory; did you mean '{there}'?" in capsys.readouterr().err


def test_the_unexpected_is_one_line_too_unless_asked(monkeypatch, capsys):
    def broken():
        raise RuntimeError("over\nthere")

    monkeypatch.setattr("verigym.envs.available", broken)
    assert main(["envs"]) == 1
    assert capsys.readouterr().err == ("error: unexpected RuntimeError: over there; set VERIGYM_DEBUG=1 for the traceback\n")
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    with pytest.raises(RuntimeError, match="over"):
        main(["envs"])


@pytest.mark.slow
def test_an_interrupt_says_how_to_go_on(tmp_path):
    source = tmp_path / "in.jsonl"
    row = {"prompt": "q", "answer": "2", "completion": r"\boxed{2}"}
    with source.open("w") as stream:
        for i in range(20_000):
            stream.write(json.dumps({**row, "prompt": str(i)}) + "\n")
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "verigym", "grade", str(source), "--env", "math", "--out", str(out)]
    process = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: out.exists() and out.stat().st_size, process)
    os.kill(process.pid, 2)
    _, error = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "error: interrupted; resume by running the same command again"
    assert "Traceback" not in error


@pytest.mark.slow
def test_output_into_a_closed_pipe(tmp_path):
    command = f"{sys.executable} -m verigym envs | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
