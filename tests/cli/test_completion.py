"""Completion in shells, by the protocol that their scripts use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs
from patience import HANG_S
from terminals import environment, verigym

from verigym.cli import main
from verigym.datasets_cfg import available as data_sets
from verigym.datasets_cfg.suites import available_suites
from verigym.envs import available


def offered(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what bash is offered for the last word of a line."""
    words = line.split(" ")
    monkeypatch.setenv("_VERIGYM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    capsys.readouterr()
    assert main([]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("verigym ch", ["check"]),
        ("verigym datasets l", ["list", "lengths"]),
        ("verigym grade --over", ["--overwrite"]),
        ("verigym check mat", ["match", "math"]),
        ("verigym envs trea", ["treasure_rooms"]),
        ("verigym play number_g", ["number_guessing"]),
        ("verigym score --env numb", ["number_guessing"]),
        ("verigym grade rows.jsonl --env code_w", ["code_with_feedback"]),
        ("verigym eval m --env code_w", ["code_with_feedback"]),
        ("verigym check arithmetic --option dig", ["digits="]),
        ("verigym check nowhere:Own --option di", []),
        ("verigym datasets show gsm", ["gsm8k"]),
        ("verigym datasets sample gsm", ["gsm8k"]),
        ("verigym validate gsm", ["gsm8k"]),
        ("verigym validate gsm8k --against humaneval_", ["humaneval_plus"]),
        ("verigym grade rows.jsonl --data gsm", ["gsm8k"]),
        ("verigym eval m --data gsm", ["gsm8k"]),
        ("verigym suite check quick", ["quickstart"]),
        ("verigym train --suite quick", ["quickstart"]),
        ("verigym eval m --suite quick", ["quickstart"]),
        ("verigym validate minex", ["minex.yaml"]),
        ("verigym suite show below/", ["below/deep.yml"]),
        ("verigym sandbox run x --backend bub", ["bubblewrap"]),
        ("verigym sandbox run x --language p", ["python"]),
        ("verigym init words --kind ", ["single", "tools", "game", "file"]),
        # left to the shell, which offers files
        ("verigym grade row", []),
        ("verigym grade rows.jsonl --out sco", []),
        ("verigym train --config mi", []),
        ("verigym sandbox run pro", []),
        ("verigym pipeline run rec", []),
    ],
)
def test_what_bash_is_offered(
    line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minex.yaml").touch()
    (tmp_path / "minex.txt").touch()
    (tmp_path / ".hidden.yaml").touch()
    (tmp_path / "below").mkdir()
    (tmp_path / "below/deep.yml").touch()
    assert offered(line, monkeypatch, capsys) == expected


def test_an_empty_word_is_offered_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert offered("verigym check ", monkeypatch, capsys) == list(available())
    assert offered("verigym validate ", monkeypatch, capsys) == list(data_sets())
    assert offered("verigym suite show ", monkeypatch, capsys) == list(available_suites())


def test_what_is_broken_offers_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise RuntimeError("a package is broken")

    monkeypatch.setattr("verigym.envs.registry.available", broken)
    assert offered("verigym check ma", monkeypatch, capsys) == []


@pytest.mark.parametrize(("shell", "expected"), [("zsh", '"math"'), ("fish", "math")])
def test_other_shells(
    shell: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("_VERIGYM_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "verigym check mat")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert main([]) == 0
    assert expected in capsys.readouterr().out


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "--install-completion" in shown and "--show-completion" in shown


@needs("bash")
@pytest.mark.slow
def test_bash_with_the_script_that_is_installed(tmp_path: Path) -> None:
    """The shell that is installed into is the one that the command is typed in; then its own completion is asked."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/verigym").write_text(f'#!/bin/sh\nexec {sys.executable} -m verigym "$@"\n')
    (tmp_path / "bin/verigym").chmod(0o755)
    variables = environment(HOME=str(tmp_path), PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    command = "verigym --install-completion; true"
    done = subprocess.run(["bash", "-c", command], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert "bash completion installed in" in done.stdout, done.stdout + done.stderr
    program = (
        "source ~/.bashrc; COMP_WORDS=(verigym check mat); COMP_CWORD=2; _verigym_completion verigym; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout.split() == ["match", "math"], done.stdout + done.stderr


@needs("bash")
def test_the_script_has_our_name_however_the_command_is_started(tmp_path: Path) -> None:
    command = f"{' '.join(verigym('--show-completion'))}; true"
    done = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, text=True, timeout=HANG_S)
    assert "complete -o default -F _verigym_completion verigym" in done.stdout, done.stdout + done.stderr
    assert "_VERIGYM_COMPLETE=complete_bash" in done.stdout
