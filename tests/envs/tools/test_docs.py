"""What docs/conversations.md shows, run as it stands."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from verigym import Message, run_episode

PAGE = Path(__file__).resolve().parents[3] / "docs/conversations.md"
BEFORE = r"""
GLOSSARY = {"ion": "an atom with a charge"}
texts = iter(['<tool_call>{"name": "calculator", "arguments": {"expression": "37 * 41"}}</tool_call>', r"\boxed{1517}"])
policy = lambda messages: next(texts)
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    path = tmp_path_factory.mktemp("docs") / "page.py"
    path.write_text(BEFORE + "\n".join(blocks))
    spec = importlib.util.spec_from_file_location("page", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_tool_in_five_lines(page: ModuleType) -> None:
    assert page.lookup.spec.description == "Find a word in the glossary."
    assert page.lookup("ion", limit=7) == "an atom"


def test_an_environment_with_tools(page: ModuleType) -> None:
    assert [turn.role for turn in page.episode.turns] == ["assistant", "tool", "assistant"]
    assert page.score.reward == 1.0


def test_a_session_with_a_state(page: ModuleType) -> None:
    class Game:
        def open(self, prompt: Any, seed: str) -> Any:
            return page.Guessing(7)

    guesses = iter(["5", "nine", "9", "7"])
    seen: list[Sequence[Message]] = []

    def policy(messages: Sequence[Message]) -> str:
        seen.append(messages)
        return next(guesses)

    episode = run_episode(Game(), page.prompt, policy)
    assert [message.content for message in seen[-1] if message.role == "user"][1:] == ["higher", "higher", "lower"]
    assert episode.outcome == {"guesses": 4}
    assert episode.turns[-1].reward == 1.0
