"""Rows to evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adapter_environments import MIXTURE, Half

import verigym
from verigym.adapters import open_held_out, open_sources
from verigym.envs import UsageError

DESCRIBED = (
    "name: mine\ndescription: Sums.\nlicence: MIT\nurl: https://example.org\nfiles: {train: a.jsonl, test: b.jsonl}\n"
    "environment: math\ncolumns: {q: string, a: string}\nprompt: '{q}'\nquestion: '{q}'\nreference: {answer: {column: a}}\n"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(DESCRIBED)
    for name, count in (("a", 3), ("b", 5)):
        lines = [json.dumps({"q": f"{name}: {number}+0=", "a": str(number)}) for number in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.parametrize(("split", "count", "rows"), [("test", None, 5), ("test", 2, 2), ("train", None, 3)])
def test_a_data_set_s_rows(data: Path, split: str, count: int | None, rows: int) -> None:
    sources = open_held_out(data / "mine.yaml", split=split, count=count, data_dir=data)
    found = [sources.task(row["verigym"]) for row in sources.held_out()]
    assert len({prompt.key for _, prompt in found}) == rows
    assert {label for label, _ in found} == set(sources.environments)


def test_generated_tasks_are_those_of_an_evaluation_and_need_a_count() -> None:
    prompts = {row["key"] for row in open_held_out("arithmetic", count=6, digits=2).held_out()}
    assert prompts == {row["key"] for row in open_sources("arithmetic", eval_split="test", eval_count=6, digits=2).held_out()}
    with pytest.raises(UsageError, match="'arithmetic' generates its tasks.*count=NUMBER"):
        open_held_out("arithmetic")
    with pytest.raises(UsageError, match="are given beside an environment"):
        open_held_out(verigym.load("arithmetic"), count=2, digits=2)


def test_a_mixture_and_an_environment_of_one_s_own() -> None:
    rows = list(open_held_out(MIXTURE, count=3).held_out())
    assert [row["source"] for row in rows] == ["sums"] * 3 + ["units"] * 3 + ["half"] * 3
    assert {row["source"] for row in open_held_out(Half(), count=2).held_out()} == {"half"}
    assert len(list(open_held_out("adapter_environments:Half", count=2).held_out())) == 2
    assert not list(open_held_out(verigym.load("math")).held_out())


@pytest.mark.parametrize(
    ("what", "given"),
    [
        (open_held_out(MIXTURE, count=1), {"split": "dev"}),
        (open_held_out(MIXTURE, count=1), {"count": 3}),
        (open_held_out(MIXTURE, count=1), {"data_dir": "here"}),
        (MIXTURE, {"split": "dev"}),
        ("arithmetic", {"data_dir": "here"}),
        ("math", {"count": 3}),
    ],
)
def test_what_has_no_effect_is_refused(what: Any, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"options {', '.join(given)} are given beside .*no effect; leave them out"):
        open_held_out(what, **given)


def test_a_source_without_a_held_out_split_is_refused() -> None:
    mixture: dict[str, Any] = {"sources": [{"environment": "units", "eval_split": None}]}
    with pytest.raises(UsageError, match="eval_split is null"):
        open_held_out(mixture, count=1)
