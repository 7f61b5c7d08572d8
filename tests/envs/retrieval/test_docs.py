"""docs/retrieval.md: its examples run as they stand, and its table is the code's."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from doc_pages import DOCS, option_table, python_blocks
from needs import needs

from verigym import Message
from verigym.envs.retrieval.environment import RetrievalOptions

Policy = Callable[[Sequence[Message]], str]


def scripted(*texts: str) -> Policy:
    left = list(texts)
    return lambda messages: left.pop(0)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@needs("bm25s")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rivers = [{"id": "aare", "title": "Aare", "text": "The Aare is 288 kilometres long."}, {"id": "rhine", "text": "1,233 km"}]
    Path("rivers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rivers))
    names: dict[str, Any] = {
        "policy": scripted(call("search", query="river"), call("open", id="d1"), r"\boxed{Nowhere}"),
        "reader": scripted(call("search", query="length of the Aare"), call("open", id="aare"), r"\boxed{288}"),
    }
    first, second = python_blocks("retrieval.md")
    exec(first, names)  # noqa: S102
    assert [turn.role for turn in names["episode"].turns] == ["assistant", "tool"] * 2 + ["assistant"]
    assert names["score"].reward == 0.0
    exec(second, names)  # noqa: S102
    assert names["episode"].turns[3].text == "[aare] Aare\nThe Aare is 288 kilometres long."
    assert names["env"].score(names["prompt"], names["episode"]).reward == 1.0


def test_the_table_of_options_is_the_code_s_own() -> None:
    assert option_table(RetrievalOptions) in (DOCS / "retrieval.md").read_text(encoding="utf-8")
