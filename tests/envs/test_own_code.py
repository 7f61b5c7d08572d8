"""Which files a user's environment is written in, and that an edit of one is seen."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from verigym.envs import Gate, load
from verigym.envs.own_code import own_code

ENVIRONMENT = """
import json
import pytest
from own_words.spelling import right
from verigym import BaseEnvironment, Options, Reference

class Word(Reference):
    word: str

class OneWord(BaseEnvironment[Word, Options]):
    name, version, reference_type = "one-word", "1", Word

    def judge(self, prompt, reference, completion):
        return right(completion.text, reference.word)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, str]]]:
    """A package of the user's; called, it is imported anew, and its code looked at."""
    folder = tmp_path / "own_words"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "env.py").write_text(ENVIRONMENT)
    (folder / "spelling.py").write_text("from verigym import Score\ndef right(a, b): return Score.correct()\n")
    (folder / "unrelated.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "own_words"]:
            del sys.modules[name]

    def look() -> dict[str, str]:
        forget()
        importlib.invalidate_caches()
        return own_code([load("own_words.env:OneWord")])

    yield look
    forget()


def test_what_the_module_imports_counts_too(package: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    before = package()
    assert set(before) == {"own_words/env.py", "own_words/spelling.py"}
    (tmp_path / "own_words/unrelated.py").write_text("# edited")
    assert package() == before
    (tmp_path / "own_words/spelling.py").write_text("from verigym import Score\ndef right(a, b): return Score.incorrect()\n")
    after = package()
    assert [name for name in before if before[name] != after[name]] == ["own_words/spelling.py"]


def test_a_composition_has_the_code_of_its_parts(package: Callable[[], dict[str, str]]) -> None:
    found = package()
    own = load("own_words.env:OneWord")
    assert own_code([Gate({"format": load("format")}, {"one-word": own})]) == found


def test_what_is_installed_counts_by_version() -> None:
    assert own_code([load("math"), load("arithmetic"), load("format")]) == {}
