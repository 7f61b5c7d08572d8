"""`verigym lean` where there is no Lean: what is missing, what to type, and exit code 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verigym.cli import main
from verigym.envs.lean import toolchain


@pytest.fixture(autouse=True)
def no_lean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LEAN4_BIN", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    toolchain._resolved.cache_clear()


def said(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    code = main(["lean", *command])
    told = capsys.readouterr()
    return code, told.out + told.err


def test_the_doctor_says_what_to_type(capsys: Any) -> None:
    code, text = said(capsys, "doctor")
    assert code == 1 and "there is no Lean at" in text
    for line in toolchain.INSTALL:
        assert line in text


@pytest.mark.parametrize("more", [(), ("--controls", "--option", "time_factor=10")], ids=["all", "controls"])
def test_the_self_test_needs_a_lean(capsys: Any, more: tuple[str, ...]) -> None:
    code, text = said(capsys, "self-test", *more)
    assert code == 1 and "error: unavailable: lean: there is no Lean at" in text


def test_a_mistake_in_the_call_is_a_mistake(capsys: Any) -> None:
    code, text = said(capsys, "doctor", "--option", "projekt=x")
    assert code == 2 and "did you mean 'project'" in text
