import json
import math
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.envs import Completion, Status, UsageError, load
from verigym.envs.composition.operators import WeightedSum
from verigym.envs.contract.base import BaseEnvironment
from verigym.envs.math.environment import MathEnvironment
from verigym.envs.shaping.cosine import CosineLength
from verigym.envs.shaping.length import LengthEnvironment
from verigym.envs.shaping.measure import count_words
from verigym.envs.shaping.overlong import OverlongEnvironment
from verigym.envs.shaping.repetition import RepetitionEnvironment

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "shaping.jsonl").read_text().splitlines()]


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = load(case["environment"], **case["options"])
    tokens = None if case["tokens"] is None else (7,) * case["tokens"]
    score = env.score(env.prompt("q", **case["reference"]), Completion(text=case["completion"], token_ids=tokens))
    assert score.reward == pytest.approx(case["reward"], abs=1e-12), score.reason
    assert (score.status is Status.NO_ANSWER) == (
        "empty" in case["why"] and case["environment"] not in ("repetition", "overlong")
    )


def test_words_are_what_spaces_of_all_kinds_divide() -> None:
    spaces = [chr(code) for code in range(0x3001) if chr(code).isspace()]
    assert len(spaces) == 29
    for space in spaces:
        assert count_words(f"{space}a{space}{space}\u00f4\u2019{space}") == 2, hex(ord(space))
        assert count_words(f"\u6f22{space}\u00e9") == 2
    for inside in "\0\u200b\u2060\ufeff\ud800\udfff":
        assert count_words(f"a{inside}b") == 1, hex(ord(inside))


@given(
    st.text(
        st.sampled_from("ab-\u00e9\u2019\u6f22\u0e44\u304b\U00020000\ud800\udc00 \n\x1f\x85\u00a0\u2009\u3000"), max_size=12
    )
)
def test_words_are_counted_as_they_are_split(text: str) -> None:
    apart = "".join(f" {char} " if char in "\u6f22\u0e44\u304b\U00020000" else char for char in text)
    assert count_words(text) == len(apart.split())


def test_repetition_of_tokens() -> None:
    env = RepetitionEnvironment(n=2, unit="tokens")
    assert env.score(env.prompt("q"), Completion(text="abcde", token_ids=(5,) * 5)).reward == -0.75
    failed = env.score(env.prompt("q"), "5 5 5 5 5")
    assert failed.reward is None
    assert failed.error is not None and failed.error.kind == "unavailable"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("overlong", {"limit": 10, "cache": 20}, "more than the limit"),
        ("length", {"kind": "cosine", "width": 0.5}, "width belongs"),
        ("effort", {"low": 10, "medium": 10}, "must exceed"),
        ("repetition", {"worst": 1.0}, "worst"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(name, **options)


def _parts() -> dict[str, BaseEnvironment[Any, Any]]:
    return {
        "math": MathEnvironment(symbolic=False),
        "length": LengthEnvironment(target=20),
        "overlong": OverlongEnvironment(limit=20, cache=10),
        "repetition": RepetitionEnvironment(n=1),
    }


_WEIGHT = st.floats(-0.7, 0.7, allow_nan=False)


@settings(deadline=None, max_examples=30)
@given(st.tuples(_WEIGHT, _WEIGHT, _WEIGHT), st.integers(0, 60), st.integers(0, 60))
def test_shaping_never_lifts_a_wrong_answer_above_a_right_one(weights: tuple[float, ...], right: int, wrong: int) -> None:
    given_weights = dict(zip(_parts(), (1.0, *weights), strict=True))
    try:
        env = WeightedSum(given_weights, _parts())
    except UsageError:
        assert math.fsum(map(abs, weights)) >= 1
        return
    assert math.fsum(map(abs, weights)) < 1
    prompt = env.prompt("1+1", math={"answer": "2"})
    good, bad = (env.score(prompt, "w " * words + rf"\boxed{{{n}}}") for words, n in ((right, 2), (wrong, 3)))
    assert good.status is Status.CORRECT and bad.status is Status.INCORRECT
    assert good.reward is not None and bad.reward is not None
    assert good.reward > bad.reward


def test_the_cosine_reward_of_the_paper() -> None:
    env = CosineLength(MathEnvironment(symbolic=False), limit=100)
    prompt = env.prompt("1+1", math={"answer": "2"})

    def reward(answer: int, tokens: int) -> float | None:
        return env.score(prompt, Completion(text=rf"\boxed{{{answer}}}", token_ids=(1,) * tokens)).reward

    assert [reward(2, n) for n in (0, 50, 100, 101)] == pytest.approx([2.0, 1.5, 1.0, -10.0])
    assert [reward(3, n) for n in (0, 50, 100, 101)] == pytest.approx([-10.0, -5.0, 0.0, -10.0])
    assert env.reward_range == (-10.0, 2.0)


def test_the_cosine_reward_keeps_right_above_wrong_unless_asked() -> None:
    with pytest.raises(UsageError, match="outrank=True"):
        CosineLength("math", limit=100, right=(1.0, 0.5), wrong=(0.0, 0.5))
    assert CosineLength("math", limit=100, right=(1.0, 0.5), wrong=(0.0, 0.5), outrank=True).reward_range == (-10.0, 1.0)
    with pytest.raises(UsageError, match="limit is 0"):
        CosineLength("math", limit=0)
