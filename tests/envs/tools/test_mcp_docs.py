"""docs/mcp.md: its examples run as they stand, and its table is the code's."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from doc_pages import DOCS, option_table, python_blocks
from needs import needs

from verigym import Message
from verigym.tools import McpOptions


def scripted(*texts: str) -> Callable[[Sequence[Message]], str]:
    left = list(texts)
    return lambda messages: left.pop(0)


@pytest.mark.slow
@needs("mcp")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server, client = python_blocks("mcp.md")
    assert server.startswith("# server.py\n")
    Path("server.py").write_text(server)
    calls = '<tool_call>{"name": "keep", "arguments": {"text": "37 * 41 is 1517"}}</tool_call>'
    names: dict[str, Any] = {"policy": scripted(calls, calls, r"\boxed{1517}")}
    exec(client, names)  # noqa: S102
    assert [turn.text for turn in names["episode"].turns if turn.role == "tool"] == ["1 kept", "2 kept"]
    assert names["env"].score(names["prompt"], names["episode"]).reward == 1.0


def test_the_table_of_options_is_the_code_s_own() -> None:
    assert option_table(McpOptions) in (DOCS / "mcp.md").read_text(encoding="utf-8")
