"""`functions`: any program that does what the words say is right, whatever it looks like; nothing else is."""

from __future__ import annotations

import functools
import itertools
import random

import pytest

from verigym.envs import Status, UsageError, load
from verigym.envs.code.functions import CALLS, LEAST_VALUES, OPERATIONS, FunctionsEnvironment, _code, _value
from verigym.envs.conformance import check_env
from verigym.envs.contract.generated import split_of
from verigym.envs.contract.schema import sha256_hex

# sha256 of the first twenty training prompts with 1, 2 and 3 steps: a change of it is a change of every run's data.
PINNED = "4299aa2b8efc85be"


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


@functools.cache
def task(words: str) -> tuple[FunctionsEnvironment, object]:
    """The task `Write f(x) in Python: words.`, found by its words."""
    env = FunctionsEnvironment()
    question = f"Write f(x) in Python: {words}."
    prompts = (env.prompt_at(split, 0, index) for index in itertools.count() for split in ("train", "test"))
    return env, next(prompt for prompt in itertools.islice(prompts, 20_000) if prompt.text == question)


def test_draws_are_pinned() -> None:
    keys = [FunctionsEnvironment(steps=steps).prompt_at("train", 0, index).key for steps in (1, 2, 3) for index in range(20)]
    assert sha256_hex(" ".join(keys))[:16] == PINNED


@pytest.mark.parametrize("split", ["train", "test"])
def test_demonstrations_are_right(split: str) -> None:
    env = FunctionsEnvironment(steps=4)
    for index in range(20):
        prompt, text = env.demonstration(split, 3, index)
        assert split_of(prompt.text) == split
        assert env.score(prompt, text).status is Status.CORRECT, (prompt.text, text)
        assert env.score(prompt, env.gold(prompt)).status is Status.CORRECT


def test_python_and_the_table_agree_on_every_pair_of_operations() -> None:
    for pair in itertools.product(OPERATIONS, repeat=2):
        for first, second in ((2, 9), (7, 3)):
            steps = [(pair[0], first), (pair[1], second)]
            found = eval(f"lambda x: {_code(steps)}")  # noqa: S307 - our own text
            for x in CALLS:
                assert found(x) == _value(steps, x), _code(steps)


def test_functions_that_agree_on_the_calls_agree_elsewhere() -> None:
    """Else a wrong program could pass: what the tests do not tell apart must be the same function."""
    rng = random.Random(0)
    by_values: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for _ in range(6_000):
        steps = [(rng.choice(OPERATIONS), rng.randint(2, 9)) for _ in range(rng.randint(1, 3))]
        near = tuple(_value(steps, x) for x in CALLS)
        if len(set(near)) >= LEAST_VALUES:
            by_values.setdefault(near, []).append(tuple(_value(steps, x) for x in range(-80, 81)))
    assert len(by_values) > 300
    apart = [near for near, far in by_values.items() if len(set(far)) > 1]
    assert not apart, f"{len(apart)} of {len(by_values)}"


RIGHT = [
    "def f(x): return (x+4)*3",
    "def f(x): return 3*x+12",
    "f = lambda x: 12 + x + x + x",
    "def f(y):\n    y += 4\n    return y * 3",
]
WRONG = [
    "def f(x): return x+4*3",
    "def f(x): return (x+4)*3+0.5",
    "def f(x): return str((x+4)*3)",
    "def g(x): return (x+4)*3",
    "def f(x): print((x+4)*3)",
    "def f(x): return {-50:-138,0:12,1:15}.get(x,(x+3)*3)",
    "def f(x): return (x+4)*3 if x>0 else 0",
    "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
    "import os\nos._exit(0)",
    "def f(x): return (x+4",
]


@pytest.mark.parametrize(("program", "right"), [*((text, True) for text in RIGHT), *((text, False) for text in WRONG)])
def test_it_is_graded_by_what_it_does(program: str, right: bool) -> None:
    env, prompt = task("add 4, multiply by 3")
    score = env.score(prompt, fenced(program))
    assert score.reward == float(right), score
    assert score.scored


@pytest.mark.parametrize("text", ["def f(x): return (x+4)*3", "", "(x+4)*3", "<think>```python\ndef f(x): return (x+4)*3\n```"])
def test_without_a_block_there_is_no_program(text: str) -> None:
    env, prompt = task("add 4, multiply by 3")
    assert env.score(prompt, text).status is Status.NO_ANSWER


def test_a_function_that_never_ends_is_stopped() -> None:
    env, prompt = task("square")
    score = env.score(prompt, fenced("def f(x):\n    while True: pass"))
    assert (score.status, score.reward) == (Status.LIMIT, 0.0)
    assert score.seconds is not None and score.seconds < 60


def test_splits_and_seeds_share_no_sequence() -> None:
    env = FunctionsEnvironment(steps=3)
    texts = {
        split: {env.prompt_at(split, seed, index).text for seed in (0, 1) for index in range(150)}
        for split in ("train", "test")
    }
    assert not texts["train"] & texts["test"]
    assert len(texts["train"]) > 150
    first, second = ([env.prompt_at("train", seed, index).text for index in range(50)] for seed in (0, 1))
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 5


def test_steps_are_an_option_and_so_are_those_of_code() -> None:
    longest = [max(load("functions", steps=n).prompt_at("train", 0, i).text.count(",") for i in range(40)) for n in (1, 2, 4)]
    assert longest == [0, 1, 3]
    assert load("functions", extract="all").gold(load("functions").prompt_at("train", 0, 0)).startswith("def f(x): return ")
    with pytest.raises(UsageError, match="steps"):
        load("functions", steps=0)
    with pytest.raises(UsageError, match="'functions' has the splits train and test, not 'dev'"):
        load("functions").prompt_at("dev", 0, 0)


@pytest.mark.slow
def test_the_environment_keeps_the_contract() -> None:
    env = FunctionsEnvironment()
    check_env(env, env.examples()[:2]).raise_if_failed()
