"""What docs/conversations.md shows, run as it stands."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from episode_envs import rows_of

from verigym import run_episode
from verigym.envs.conformance.episode_checks import ADVICE

PAGE = Path(__file__).resolve().parents[3] / "docs/conversations.md"
BEFORE = r"""
GLOSSARY = {"ion": "an atom with a charge"}
texts = iter(['<tool_call>{"name": "calculator", "arguments": {"expression": "37 * 41"}}</tool_call>', r"\boxed{1517}"])
policy = lambda messages: next(texts)
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
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


def test_an_episode_in_a_worker(page: ModuleType) -> None:
    assert [message.content for message in page.answer.reply.messages] == ["1517"]
    assert page.outcome == {"calls": {"calculator": 1}, "faults": {}}


def test_an_environment_with_state(page: ModuleType) -> None:
    env = page.SpellingEnvironment()
    task = env.prompt("Which word?", word="abcabcabc")
    texts = iter(["aaaaaaaaa", "abcabcab", "abcabcabc"])
    episode = run_episode(env, task, lambda messages: next(texts))
    assert [turn.text for turn in episode.turns if turn.role == "user"] == [
        "3 letters are in their place.",
        "8 letters are in their place.",
    ]
    assert episode.outcome == {"tries": 3} and env.score(task, episode).reward == 1.0
    lost = run_episode(env, task, lambda messages: "abcabcab", max_turns=20)
    assert episode.finish_reason == "stop" and len(lost.turns) == 19 and env.score(task, lost).reward == 0.0
    assert env.prompt_at("train", 0, 3) == env.prompt_at("train", 0, 3) != env.prompt_at("train", 1, 3)


def test_it_keeps_the_contract_of_sessions(page: ModuleType) -> None:
    rows = rows_of(page.SpellingEnvironment(), [page.SpellingEnvironment().prompt_at("train", 0, index) for index in range(2)])
    assert len(rows) == len(ADVICE) - 1 and all(row.passed for row in rows.values()), rows
