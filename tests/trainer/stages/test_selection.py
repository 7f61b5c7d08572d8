"""Which completions are kept: by rule, never one without a verdict, never one that was cut off, no text twice."""

from __future__ import annotations

import pytest

from verigym.envs import Score, UsageError, load
from verigym.envs.composition.operators import Gate, WeightedSum
from verigym.trainer.stages.selection import Candidate, condition, select

RIGHT, WRONG, UNSCORED = Score.correct(), Score.incorrect(), Score.failed("crashed", "the worker died")
CANDIDATES = [
    Candidate("long right", 9, RIGHT),
    Candidate("wrong", 2, WRONG),
    Candidate("short right", 4, RIGHT),
    Candidate("unscored", 1, UNSCORED),
    Candidate("half", 5, Score.partial(0.5)),
    Candidate("short  right", 3, RIGHT),
    Candidate("cut off right", 1, RIGHT, cut_off=True),
]


@pytest.mark.parametrize(
    ("rule", "at_most", "least", "kept"),
    [
        ("all_correct", None, None, [0, 2]),
        ("shortest_correct", None, None, [5, 0]),
        ("shortest_correct", 1, None, [5]),
        ("longest_correct", 1, None, [0]),
        ("best", None, None, [5, 0, 4, 1]),
        ("best", None, 0.5, [5, 0, 4]),
        ("best", 3, None, [5, 0, 4]),
        ("all_correct", None, 1.5, []),
    ],
)
def test_the_rules(rule: str, at_most: int | None, least: float | None, kept: list[int]) -> None:
    assert select(CANDIDATES, rule, at_most=at_most, least_reward=least).numbers == kept


def test_nothing_is_kept_of_nothing_right() -> None:
    assert select([Candidate("a", 1, WRONG), Candidate("b", 1, UNSCORED)], "all_correct").numbers == []
    assert select([], "best").numbers == []


def spoken(share: float | None, words: float = 10.0) -> Candidate:
    components: dict[str, float | None] = {"math": 1.0, "paragraphs": 1.0, "paragraphs/longest": words}
    if share is not None:
        components["language"] = share
    return Candidate(f"{share} {words}", 3, RIGHT.model_copy(update={"components": components}))


def test_conditions_on_parts_are_beside_the_rule_and_each_removal_has_its_reason() -> None:
    read = [(condition("language", ">= 0.95"), "language"), (condition("paragraphs/longest", "<300"), "paragraphs/longest")]
    candidates = [
        spoken(0.36),
        spoken(0.95),
        spoken(1.0, 300.0),
        spoken(None),  # behind a shut gate
        Candidate("wrong", 2, WRONG),
        Candidate("unscored", 1, UNSCORED),
        Candidate("cut off", 1, RIGHT, cut_off=True),
        spoken(0.95),
        spoken(1.0),
        spoken(0.99),
    ]
    found = select(candidates, "all_correct", at_most=2, conditions=read)
    assert found.numbers == [1, 8]
    language, longest = "language >= 0.95", "paragraphs/longest < 300"
    reasons = {
        0: language,
        2: longest,
        3: language,
        4: "all_correct",
        5: "no verdict",
        6: "cut off",
        7: "same text",
        9: "at_most",
    }
    assert found.removed == reasons
    assert select(candidates[:2], "best", least_reward=1.5).removed == {0: "reward >= 1.5", 1: "reward >= 1.5"}


@pytest.mark.parametrize(
    ("text", "passes", "fails"),
    [("<= 2", 2.0, 2.1), ("< 2", 1.9, 2.0), (">= -0.5", -0.5, -0.6), (" >1e-3 ", 0.002, 0.001), ("== 0", 0.0, 1e-9)],
)
def test_comparisons(text: str, passes: float, fails: float) -> None:
    read = condition("part", text)
    assert read.holds(passes) and not read.holds(fails)


@pytest.mark.parametrize("text", ["0.95", ">= high", "=> 1", ">= 1 and <= 2", "", ">= nan", "!= 1", "<= 1e999", "> -1e999"])
def test_what_is_no_comparison_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="keep_if: part: .* is no comparison with a number; write for example"):
        condition("part", text)


def test_where_a_part_stands_among_the_components() -> None:
    inner = WeightedSum({"math": 1.0, "language": 0.1})
    gated = Gate("format", {"graded": inner})
    read = condition("language", ">= 1")
    assert read.component(inner) == "language"
    assert read.component(gated) == "graded/language"
    assert condition("format", ">= 1").component(gated) == "format"
    assert condition("repetition/repeated", "<= 0.1").component(load("repetition")) == "repeated"
    assert condition("math", ">= 1").component(load("math")) == ""
    with pytest.raises(UsageError, match="no part is called 'lnguage'; the parts are format, graded, language, math"):
        condition("lnguage", ">= 1").component(gated)
    twice = Gate({"language": load("format")}, {"graded": inner})
    with pytest.raises(UsageError, match="2 parts are called 'language'"):
        read.component(twice)
