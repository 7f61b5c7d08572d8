"""A field of the reference that only some rows have."""

from pathlib import Path

import pytest

from verigym.datasets_cfg import load
from verigym.datasets_cfg.load import RowError
from verigym.envs import UsageError

MODULE = """
from verigym.envs import BaseEnvironment, Options, Reference, Score

class Weighted(Reference):
    answer: str
    weights: dict[str, float] | None = None

class WeightedEnvironment(BaseEnvironment):
    name, version, reference_type = "weighted", "1", Weighted
    def judge(self, prompt, reference, completion):
        return Score.correct() if completion.text == reference.answer else Score.incorrect()
"""
ROWS = """{"q": "a?", "a": "1", "w": {"x": 0.5}}
{"q": "b?", "a": "2", "w": null}
{"q": "c?", "a": "3"}
{"q": "d?", "a": "4", "w": 5}
"""
DESCRIPTION = """
name: mine
description: Rows of mine.
licence: none
url: https://example.org
environment: weighted_module:WeightedEnvironment
files: {{test: rows.jsonl}}
columns: {{q: string, a: string, w: object}}
prompt: "{prompt}"
reference:
  answer: {{column: a{answer}}}
  weights: {{column: w{weights}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "weighted_module.py").write_text(MODULE)
    (tmp_path / "rows.jsonl").write_text(ROWS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def described(folder: Path, prompt: str = "{q}", answer: str = "", weights: str = ", optional: true") -> Path:
    path = folder / "mine.yaml"
    path.write_text(DESCRIPTION.format(prompt=prompt, answer=answer, weights=weights))
    return path


def test_it_is_left_out_where_a_row_has_none(folder: Path) -> None:
    rows = load(described(folder), "test", data_dir=folder)
    weights = [rows[number].references["weighted"].model_dump()["weights"] for number in range(3)]
    assert weights == [{"x": 0.5}, None, None]
    with pytest.raises(RowError, match="field 'w' is int; expected object"):
        rows[3]


def test_without_the_word_every_row_needs_it(folder: Path) -> None:
    rows = load(described(folder, weights=""), "test", data_dir=folder)
    with pytest.raises(RowError, match="field 'w' is missing; expected object"):
        rows[1]


def test_a_column_that_the_prompt_needs_too_is_needed(folder: Path) -> None:
    rows = load(described(folder, prompt="{q} {w}"), "test", data_dir=folder)
    with pytest.raises(RowError, match="field 'w' is missing"):
        rows[1]


def test_a_field_that_the_environment_needs_is_not_optional(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"mine.yaml:11: 'reference.answer' is optional, and environment .* needs it"):
        load(described(folder, answer=", optional: true"), "test", data_dir=folder)
