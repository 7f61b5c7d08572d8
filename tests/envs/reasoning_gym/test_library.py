"""Every supported task of reasoning-gym, with the library itself: golds score the maximum, nothing else does."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from needs import lacking, needs

from verigym.envs import Environment, EnvironmentFailure, Prompt, Status, UsageError, load
from verigym.envs.conformance.hacks import garbage, hacks
from verigym.envs.reasoning_gym.tasks import REFUSED, TASKS

INSTALLED = importlib.util.find_spec("reasoning_gym") is not None
needs_library = needs("reasoning-gym")


@lacking("elsewhere", INSTALLED, "reasoning-gym is installed here")
def test_without_the_library_it_says_what_to_install() -> None:
    with pytest.raises(EnvironmentFailure, match=r"verigym\[reasoning-gym\]"):
        load("reasoning_gym").check()


@needs_library
def test_the_tables_name_every_task_of_the_library() -> None:
    from reasoning_gym.factory import DATASETS

    assert set(DATASETS) == TASKS.keys() | REFUSED.keys()


@needs_library
@pytest.mark.parametrize("task", sorted(TASKS))
def test_golds_and_hacks(task: str) -> None:
    env = load("reasoning_gym", task=task)
    prompt = env.prompt_at("train", 3, 1)  # type: ignore[attr-defined]
    assert env.prompt_at("train", 3, 1) == prompt  # type: ignore[attr-defined]
    gold = env.gold(prompt) or ""
    assert env.score(prompt, gold).status is Status.CORRECT
    for name, text in [*_hacks(env, prompt), *hacks(prompt, gold), *garbage(prompt)]:
        if text != gold:
            score = env.score(prompt, text)
            assert score.reward == 0 and score.status is not Status.CORRECT, (name, text[-200:], score.reason)


def _hacks(env: Environment, prompt: Prompt) -> Iterator[tuple[str, str]]:
    answer = (env.gold(prompt) or "")[len(r"\boxed{") : -1]
    yield "nothing", ""
    yield "echo", prompt.text
    yield "echo as the answer", rf"\boxed{{{prompt.text}}}"
    yield "words behind", rf"\boxed{{{answer} and also blah}}"
    yield "words before", rf"\boxed{{the answer is {answer}}}"
    yield "twice", rf"\boxed{{{answer} {answer}}}"
    yield "many", rf"\boxed{{{answer}, 1, 2, True, False, yes, no}}"
    yield "no box", answer
    yield "program text", r"\boxed{__import__('os').getpid()}"


@needs_library
def test_another_version_of_the_library_is_noticed() -> None:
    env = load("reasoning_gym", task="sokoban")
    prompt = env.prompt_at("train", 0, 0)  # type: ignore[attr-defined]
    fields = prompt.references["reasoning_gym"].model_dump()
    changed = env.prompt(prompt.text, **{**fields, "question": "0" * 16})
    score = env.score(changed, env.gold(prompt) or "")
    assert score.error is not None and score.error.kind == "gold_invalid"


@needs_library
def test_a_config_that_the_library_refuses() -> None:
    env = load("reasoning_gym", task="chain_sum", config={"min_terms": -1})
    with pytest.raises(UsageError, match="option 'config': reasoning-gym makes no 'chain_sum' of it"):
        env.prompt_at("train", 0, 0)  # type: ignore[attr-defined]


@needs_library
def test_a_scorer_that_runs_out_of_time() -> None:
    env = load("reasoning_gym", task="simple_integration", timeout_s=2.0)
    prompt = env.prompt_at("train", 0, 0)  # type: ignore[attr-defined]
    assert env.score(prompt, r"\boxed{9**9**9**9}").status is Status.LIMIT
