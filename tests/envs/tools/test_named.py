"""Tools by name, as run files and the command line name them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from verigym import UsageError
from verigym.envs.tools.named import load_tools

SERVER = Path(__file__).resolve().parents[2] / "support/mcp_server_for_tests.py"


def test_tools_come_by_name_with_their_options() -> None:
    tools = load_tools({"calculator": {}, "python": {"wall_s": 3}, "verigym.tools:calculator": {}})
    assert [tool.spec.name for tool in tools] == ["calculator", "python", "calculator"]
    assert tools[1].options.wall_s == 3  # type: ignore[attr-defined]


@needs("mcp")
@pytest.mark.slow
def test_a_server_gives_all_its_tools() -> None:
    one, two = {"command": [sys.executable, str(SERVER)]}, {"command": [sys.executable, str(SERVER)], "prefix": "second_"}
    names = [tool.spec.name for tool in load_tools({"mcp_server": one, "mcp_server/second": two})]
    half = len(names) // 2
    assert half and names[half:] == [f"second_{name}" for name in names[:half]]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"calculater": {}}, "no tool 'calculater'; did you mean 'calculator'"),
        ({"calculator": {"digits": 3}}, "tool 'calculator' takes no options; leave out digits"),
        ({"python": {"wall": 3}}, "unknown field 'wall'; did you mean 'wall_s'"),
        ({"mcp_server": {}}, "tool 'mcp_server': .*missing 1 required positional argument: 'command'"),
        ({"os:system": {}}, "'os:system' is no tool"),
        ({"os:nothing": {}}, "tool 'os:nothing': AttributeError"),
        ({"no_such_module:tool": {}}, "tool 'no_such_module:tool': ModuleNotFoundError"),
    ],
)
def test_mistakes_are_one_sentence(named: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_tools(named)
