"""`verigym sandbox run`: arguments, input, limits and files of the program, and JSON for scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from verigym.cli import main
from verigym.sandbox import LANGUAGES, Language, Limits, languages

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("box")
ECHO = "import sys; print(sys.argv[1:], repr(sys.stdin.read()))"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)

    def write(source: str, name: str = "program.py") -> Path:
        path = Path(name)
        path.write_text(source, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("after", "given"),
    [
        (["a", "b"], ["a", "b"]),
        (["--", "-v", "--wall-s"], ["-v", "--wall-s"]),
        (["--wall-s", "60", "--", "a b", ""], ["a b", ""]),
    ],
)
def test_arguments_of_the_program(after: list[str], given: list[str], program: Callable[..., Path], capsys: Capture) -> None:
    assert main(["sandbox", "run", str(program(ECHO)), *after]) == 0
    assert capsys.readouterr().out == f"{given} ''\n"


def test_an_option_meant_for_the_program_is_told_where_to_stand(program: Callable[..., Path], capsys: Capture) -> None:
    assert main(["sandbox", "run", str(program(ECHO)), "--zzz"]) == 2
    assert "no option --zzz; arguments of the program come after -- (see" in capsys.readouterr().err


LIMITED = {
    "wall_s": ("0.3", "import time; time.sleep(9)", "time"),
    "cpu_s": ("1", "while True: pass", "time"),
    "memory_mb": ("64", "x = bytearray(200 << 20)", "memory"),
    "processes": ("3", "import os\nfor _ in range(9):\n  if not os.fork(): os._exit(os.kill(os.getpid(), 19))", "runtime"),
    "output_kb": ("1", "print('x' * 5000)", "output"),
    "files_mb": ("1", "open('f', 'wb').write(bytes(3 << 20))", "runtime"),
    "inodes": ("20", "for n in range(99): open(f'f{n}', 'w')", "runtime"),
}


@pytest.mark.parametrize("limit", [field.name for field in fields(Limits)])
def test_every_limit_is_an_option(limit: str, program: Callable[..., Path], capsys: Capture) -> None:
    value, source, status = LIMITED[limit]
    assert main(["sandbox", "run", str(program(source)), "--json", f"--{limit.replace('_', '-')}", value]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"] == status, shown


def piped(arguments: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "verigym", "sandbox", "run", *arguments]
    return subprocess.run(command, input=given, capture_output=True, timeout=600)


@pytest.mark.slow
def test_a_program_comes_from_standard_input() -> None:
    done = piped(["-", "a"], b"import sys; print(sys.argv[1:])")
    assert (done.returncode, done.stdout) == (0, b"['a']\n")
    assert b"note:" not in done.stderr
    done = piped(["-", "--language", "bash"], b"echo bash $0")
    assert done.stdout.startswith(b"bash "), done


@pytest.mark.slow
def test_input_that_is_not_passed_on_is_said(program: Callable[..., Path]) -> None:
    path = str(program("import sys; print(sys.stdin.buffer.read())"))
    silent = piped([path], b"some")
    assert (silent.returncode, silent.stdout) == (0, b"b''\n")
    assert b"note: standard input was not given to the program; --stdin - passes it on\n" in silent.stderr
    for done in (piped([path], b""), piped([path, "--stdin", "-"], b"\xff\x00")):
        assert done.returncode == 0 and b"note:" not in done.stderr
    assert done.stdout == b"b'\\xff\\x00'\n"


def test_standard_input_from_a_file_is_bytes(program: Callable[..., Path], capsys: Capture) -> None:
    Path("in.bin").write_bytes(b"\xff\xfe")
    source = program("import sys; print(sys.stdin.buffer.read())")
    assert main(["sandbox", "run", str(source), "--stdin", "in.bin"]) == 0
    assert capsys.readouterr().out == "b'\\xff\\xfe'\n"


def test_files_go_in_and_come_out(program: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    Path("data").mkdir()
    Path("data/in.bin").write_bytes(b"\xff")
    source = program(
        "import os\nos.mkdir('d')\n"
        "open('d/out.bin', 'wb').write(open('data/in.bin', 'rb').read() + open('x', 'rb').read() + open('in.bin', 'rb').read())"
    )
    files = ["--file", "data/in.bin", "--file", "x=data/in.bin", "--file", str(tmp_path / "data/in.bin")]
    wanted = ["--collect", "d/out.bin", "--collect", "absent", "--out", "taken"]
    assert main(["sandbox", "run", str(source), *files, *wanted, "--json"]) == 0
    shown = capsys.readouterr()
    assert Path("taken/d/out.bin").read_bytes() == b"\xff\xff\xff"
    assert json.loads(shown.out)["files"] == ["d/out.bin"]
    assert "note: absent: not there, no regular file, or larger than the output limit" in shown.err


def test_json_holds_all_of_the_result(program: Callable[..., Path], capsys: Capture) -> None:
    source = program("import os, sys; os.write(1, b'a\\xff'); sys.stderr.write('e'); sys.exit(3)")
    assert main(["sandbox", "run", str(source), "--json"]) == 1
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    used = {name: shown.pop(name) for name in ("wall_s", "cpu_s", "memory_mb")}
    assert all(value > 0 for value in used.values())
    assert shown == {
        "status": "runtime",
        "exit_code": 3,
        "signal": None,
        "message": "exit code 3",
        "stdout": "a\\xff",
        "stderr": "e",
        "files": [],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--stdin", "-"], "- is given for the program and for its standard input; one of them must be a file"),
        (["program.py", "--collect", "x"], "--collect NAME and --out DIR belong together"),
        (["program.py", "--out", "x"], "--collect NAME and --out DIR belong together"),
        (["program.py", "--file", "../x=program.py"], "expected a path below the work folder"),
        (["program.py", "--file", "absent"], "cannot read absent: No such file"),
        (["progam.py"], "cannot read progam.py: No such file or directory; did you mean 'program.py'?"),
        (["bad.py"], "cannot read bad.py: byte 0 is no UTF-8 text"),
        (["program.py", "--processes", "9999999"], "limit processes=9999999: expected at most"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, program: Callable[..., Path], capsys: Capture) -> None:
    program("")
    Path("bad.py").write_bytes(b"\xff")
    assert main(["sandbox", "run", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_how_it_ended_is_one_line_and_the_compiler_is_heard_once(
    program: Callable[..., Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = program("int main(){ return x; }", "broken.c")
    language = Language(
        name="twice",
        source="main.py",
        compile=("bash", "-c", "echo one >&2; echo two >&2; exit 1"),
        binary="main",
        run=("{binary}",),
    )
    monkeypatch.setitem(LANGUAGES, "twice", language)
    monkeypatch.setitem(languages._aliases, "twice", "twice")
    assert main(["sandbox", "run", str(broken), "--language", "twice"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["one", "two"] and lines[2].startswith("compile: ") and len(lines) == 3


def test_an_unknown_ending_names_the_known_ones(program: Callable[..., Path], capsys: Capture) -> None:
    assert main(["sandbox", "run", str(program("", "main.go"))]) == 2
    assert "no language has the ending '.go' (.py .sh .c .cpp .cc .js .mjs); name it with --language" in capsys.readouterr().err


def test_the_doctor_cuts_no_advice_off() -> None:
    done = subprocess.run([sys.executable, "-m", "verigym", "sandbox", "doctor"], capture_output=True, text=True, timeout=600)
    assert "…" not in done.stdout and "level " in done.stdout
