"""Which files a user's environment is written in, and that an edit of one is seen."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from verigym.envs import Gate, load
from verigym.envs.grading import Grader
from verigym.envs.own_code import cache_code, own_code

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


def test_a_module_that_gives_only_plain_values_counts(package: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    (tmp_path / "own_words/limits.py").write_text("MOST = 3\n")
    (tmp_path / "own_words/env.py").write_text("from .limits import MOST" + ENVIRONMENT)
    assert "own_words/limits.py" in package()


def test_kept_verdicts_follow_the_code(package: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    def graded(workers: int = 0) -> tuple[str, int]:
        package()
        own = load("own_words.env:OneWord")
        with Grader(own, workers=workers, cache=tmp_path / "cache.db") as grader:
            score = grader.grade([(own.prompt("a?", word="a"), "a")])[0]
            return score.status.value, grader.stats.cache_hits

    assert graded() == ("correct", 0)
    assert graded() == ("correct", 1)
    (tmp_path / "own_words/spelling.py").write_text("from verigym import Score\ndef right(a, b): return Score.incorrect()\n")
    assert graded() == ("incorrect", 0)
    assert graded(workers=1) == ("incorrect", 1)


def test_the_code_of_a_part_counts_in_a_composition(package: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    def code() -> str:
        package()
        return cache_code(Gate({"format": load("format")}, {"one-word": load("own_words.env:OneWord")}))

    before = code()
    assert before and code() == before
    (tmp_path / "own_words/env.py").write_text(ENVIRONMENT + "# edited")
    assert code() != before


def test_verdicts_of_the_library_are_kept_by_the_grader_id_alone() -> None:
    assert cache_code(load("math")) == cache_code(Gate({"format": load("format")}, {"math": load("math")})) == ""


@pytest.mark.slow
def test_of_a_script_all_counts_that_a_judge_may_call(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    text = "from verigym import Score\nfrom helper import MOST\ndef right(a, b): return Score.correct()\n"
    text += ENVIRONMENT.replace("import pytest\nfrom own_words.spelling import right\n", "")
    text += "from verigym.envs.own_code import cache_code\nprint(cache_code(OneWord()))\n"

    def code() -> str:
        return subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout.strip()

    script.write_text(text)
    (tmp_path / "helper.py").write_text("MOST = 1\n")
    codes = [code(), code()]
    script.write_text(text.replace("Score.correct()", "Score.incorrect()"))
    codes.append(code())
    (tmp_path / "helper.py").write_text("MOST = 2\n")
    codes.append(code())
    assert codes[0] == codes[1] and len(set(codes)) == 3 and all(codes)


def test_where_an_edit_would_not_be_seen_no_verdict_is_kept(tmp_path: Path) -> None:
    text = ENVIRONMENT.replace("from own_words.spelling import right\n", "")
    text += "from verigym.envs.grading import Grader\nGrader(OneWord(), workers=0).close()\nGrader(OneWord(), cache='c.db')\n"
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert "UsageError: cache: OneWord of environment 'one-word' is written in a notebook or at a prompt" in done.stderr
    assert "put it into a file" in done.stderr
