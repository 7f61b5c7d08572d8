"""The conformance kit on the shipped environment, and what its hacks are built from."""

from typing import Any

import pytest

from verigym.envs.code.environment import CodeEnvironment
from verigym.envs.conformance import check_env
from verigym.envs.extraction.gold import cut

KINDS = ["stdio", "call", "assert", "unittest", "pytest", "file", "checker"]


def test_there_is_an_example_for_every_type_of_test() -> None:
    env = CodeEnvironment()
    assert [env.reference(prompt).tests[0].type for prompt in env.examples()] == KINDS


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"extract": "all", "parallel": 1}], ids=["fenced", "all"])
def test_the_environment_keeps_the_contract(options: dict[str, Any]) -> None:
    env = CodeEnvironment(**options)
    # unittest and pytest judge as assert does, by the same way, and load a framework for each of 200 hacks.
    prompts = [prompt for prompt in env.examples() if env.reference(prompt).tests[0].type not in ("unittest", "pytest")]
    check_env(env, prompts).raise_if_failed()


def test_a_fenced_gold_is_cut_into_whole_lines() -> None:
    gold = cut("```python\na = 1\nb = 2\n```")
    assert (gold.before, gold.answer, gold.after) == ("```python\n", "a = 1\nb = 2\n", "```")
    assert gold.holding("x") == "```python\nx\n```"
    assert gold.holding(gold.answer) == "```python\na = 1\nb = 2\n```"


def test_the_last_block_is_the_answer_and_a_longer_fence_holds_a_shorter() -> None:
    text = "<think>t</think>\n```\none\n```\nand\n````py\n```\ntwo\n```\n````\nend"
    assert cut(text).answer == "```\ntwo\n```\n"
    assert cut(text).holding("x") == "<think>t</think>\n```\none\n```\nand\n````py\nx\n````\nend"
    assert cut("```py\n\\boxed{1}\n```").answer == "\\boxed{1}\n"
    assert cut("no fence \\boxed{1}").answer == "1"
