"""Environments that write their own tasks: right by brute force, keyed by hash, held-out questions held out."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verigym.envs import UsageError, load
from verigym.envs.contract.generated import Made
from verigym.envs.generated.families import HELD_OUT_SHARE, THINGS, UNITS, ProceduralEnvironment, split_of

NAMES = ("arithmetic", "units", "bases", "story")
OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


def make(name: str, **options: Any) -> Any:
    return load(name, **options)


@pytest.fixture(scope="module", params=NAMES)
def env(request: pytest.FixtureRequest) -> Any:
    return make(request.param)


def expected(question: str) -> int:
    """Answer a question in another way than the environment does: read it anew."""
    if found := re.fullmatch(r"(\d+)([+*-])(\d+)=\?", question):
        return OPERATIONS[found[2]](int(found[1]), int(found[3]))
    if found := re.fullmatch(r"(\d+) in base (\d) is\?", question):
        return int(found[1], int(found[2]))
    if found := re.fullmatch(r"How many (\w+) are (\d+) (\w+) and (\d+) (\w+)\?", question):
        assert found[1] == found[5]
        factors = {(large, small): factor for large, small, factor in UNITS}
        return sum([factors[found[3], found[1]]] * int(found[2])) + int(found[4])
    a, b, c = map(int, re.findall(r"\d+", question))
    assert len({thing for thing in THINGS if thing in question}) == 1
    return a + b - c if "gives away" in question else sum([b] * a) + c


def steps_hold(reasoning: str) -> bool:
    """Whether every `left=right` of a worked solution is true."""
    for step in reasoning.split(","):
        left, right = step.split("=")
        total = 0
        for sign, product in re.findall(r"([+-]?)([\d*]+)", left):
            value = 1
            for factor in product.split("*"):
                value *= int(factor)
            total += -value if sign == "-" else value
        if total != int(right):
            return False
    return True


def test_answers_are_right_and_so_is_every_step(env: Any) -> None:
    for index in range(400):
        question, answer, reasoning, _ = env.drawn("train", 0, index)
        assert int(answer) == expected(question), question
        assert int(answer) >= 0
        assert steps_hold(reasoning), (question, reasoning)


@pytest.mark.parametrize("digits", [1, 2, 6])
@pytest.mark.parametrize("operation", ["+", "-", "*"])
def test_every_operation_is_right(operation: str, digits: int) -> None:
    env = make("arithmetic", digits=digits, operations=operation)
    rng = random.Random(f"{operation}{digits}")
    for _ in range(300):
        question, answer, reasoning, _ = env.make(rng)
        assert operation in question
        assert int(answer) == expected(question)
        assert steps_hold(reasoning), (question, reasoning)
        # Digit by digit: written one below the other, the steps' last digits are the answer.
        results = [step.split("=")[1] for step in reasoning.split(",")]
        worked = results[-1] + "".join(result[-1] for result in results[-2::-1])
        assert int(worked) == int(answer), (question, reasoning)


def test_every_sum_of_one_digit_occurs_and_the_splits_share_none() -> None:
    env = make("arithmetic", digits=1, operations="+")
    drawn = {split: {env.drawn(split, 0, index)[0] for index in range(1500)} for split in ("train", "test")}
    assert not drawn["train"] & drawn["test"]
    assert drawn["train"] | drawn["test"] == {f"{a}+{b}=?" for a, b in itertools.product(range(10), repeat=2)}


def test_held_out_questions_occur_in_no_training_whatever_the_seed(env: Any) -> None:
    held_out = {env.prompt_at("test", 0, index).text for index in range(150)}
    for seed in range(4):
        training = {env.prompt_at("train", seed, index).text for index in range(300)}
        assert not training & held_out
        assert {split_of(question) for question in training} == {"train"}
    assert {split_of(question) for question in held_out} == {"test"}


def test_a_fifth_of_all_questions_is_held_out() -> None:
    shares = [split_of(f"{a}+{b}=?") == "test" for a in range(100) for b in range(100)]
    assert abs(sum(shares) / len(shares) - HELD_OUT_SHARE) < 0.02
    assert split_of("47+38=?") == "train"  # the hash decides, and may not change between versions
    assert split_of("12+34=?") == "train"


def test_the_same_index_is_the_same_task_and_others_differ(env: Any) -> None:
    again = make(env.name)
    tasks = [env.prompt_at("train", 1, index) for index in range(60)]
    assert tasks == [again.prompt_at("train", 1, index) for index in range(60)]
    assert tasks[0].metadata == {"split": "train", "seed": 1, "index": 0}
    other = [env.prompt_at("train", 2, index) for index in range(60)]
    assert sum(a.text == b.text for a, b in zip(tasks, other, strict=True)) < 15
    # Added seeds would make this run the other one, shifted by a task.
    assert sum(a.text == b.text for a, b in zip(tasks[1:], other, strict=False)) < 15
    assert len({task.text for task in tasks}) > 20


def test_the_gold_and_the_demonstration_are_right_here_and_for_math_and_format(env: Any) -> None:
    mathematics, form = make("math", symbolic=False), make("format")
    for index in range(25):
        prompt, text = env.demonstration("train", 3, index)
        assert prompt.text == env.prompt_at("train", 3, index).text
        answer = env.reference(prompt).answer
        assert env.score(prompt, env.gold(prompt)).reward == 1
        assert env.score(prompt, text).reward == 1
        assert mathematics.score(mathematics.prompt(prompt.text, answer=answer), text).reward == 1
        assert form.score(form.prompt(prompt.text), text).reward == 1
        wrong = text.replace(f"\\boxed{{{answer}}}", f"\\boxed{{{int(answer) + 1}}}")
        assert env.score(prompt, wrong).reward == 0


@pytest.mark.parametrize("answer", ["38+47", "47+38", "100-15", "5*17", "80+5", "x", "", "?", "47+38=85 or 86"])
def test_a_sum_is_answered_by_its_value(answer: str) -> None:
    env = make("arithmetic")
    prompt = env.prompt("47+38=?", answer="85")
    score = env.score(prompt, f"\\boxed{{{answer}}}")
    assert score.reward == 0, score
    assert env.score(prompt, "\\boxed{85}").reward == 1


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_only_the_value_is_right(gold: int, answer: int) -> None:
    env = make("arithmetic")
    assert env.score(env.prompt("?", answer=str(gold)), f"\\boxed{{{answer}}}").reward == float(gold == answer)


@pytest.mark.parametrize("split", ["dev", "", "Train", "validation"])
def test_an_unknown_split_is_named(env: Any, split: str) -> None:
    with pytest.raises(UsageError, match=f"{env.name}.*train and test, not {split!r}"):
        env.prompt_at(split, 0, 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("arithmetic", {"operations": "/"}),
        ("arithmetic", {"operations": ""}),
        ("arithmetic", {"digits": 0}),
        ("arithmetic", {"digits": 7}),
        ("units", {"largest": 0}),
        ("bases", {"largest": 10}),
        ("story", {"digits": 2}),
    ],
)
def test_bad_options_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        make(name, **options)


def test_operands_keep_to_the_options() -> None:
    minus, times = make("arithmetic", digits=1, operations="-"), make("arithmetic", digits=3, operations="*")
    units, bases = make("units", largest=2), make("bases", largest=4)
    for index in range(200):
        a, b = map(int, re.findall(r"\d+", minus.drawn("train", 0, index)[0]))
        assert b <= a <= 9
        a, b = map(int, re.findall(r"\d+", times.drawn("train", 0, index)[0]))
        assert a <= 999 and b <= 9
        assert int(re.findall(r"\d+", units.drawn("train", 0, index)[0])[0]) <= 2
        assert int(bases.drawn("train", 0, index)[0].split("base ")[1][0]) <= 4


class OneQuestion(ProceduralEnvironment):
    name = "one-question"
    version = "1"

    def make(self, rng: random.Random) -> Made:
        return Made("47+38=?", "85", "7+8=15,4+3+1=8")


def test_so_few_questions_that_a_split_has_none_is_said_and_does_not_hang() -> None:
    env = OneQuestion()
    assert env.prompt_at("train", 0, 0).text == "47+38=?"
    with pytest.raises(UsageError, match="'one-question' has so few questions.*none of the split 'test'"):
        env.prompt_at("test", 0, 0)


def test_even_two_questions_are_divided() -> None:
    env = make("bases", largest=2)
    assert {env.prompt_at(split, 0, 0).text for split in ("train", "test")} == {"10 in base 2 is?", "11 in base 2 is?"}
