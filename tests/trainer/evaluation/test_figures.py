"""Figures of k samples: by hand, and against every subset."""

from __future__ import annotations

from itertools import combinations
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.report.comparison import compare_prompts
from verigym.report.figures import PromptTally, share
from verigym.trainer.evaluation.figures import (
    ScoredSamples,
    avg,
    best_of,
    majority,
    mean_interval,
    pass_at,
    powers,
    weighted_majority,
)


def answers(correct: list[bool], said: list[str | None] | None = None) -> ScoredSamples:
    return ScoredSamples(tuple(correct), tuple(said or ["1" if right else "2" for right in correct]), (5,) * len(correct))


ONE = answers([True, False, False, True], ["7", "8", "8", "7.0"])


def test_by_hand() -> None:
    assert avg(ONE) == 0.5
    assert pass_at(ONE, 1) == 0.5
    assert pass_at(ONE, 2) == pytest.approx(5 / 6)
    assert majority(ONE, 4) == 0.5, "a tie"
    assert best_of(ONE, [0.9, 0.8, 0.1, 0.2], 4) == 1
    assert best_of(ONE, [0.1, 0.8, 0.9, 0.2], 4) == 0
    assert best_of(ONE, [0.9, 0.8, 0.1, 0.2], 1) == 0.5
    assert best_of(ONE, [1.0, 1.0, 0.0, 0.0], 4) == 0.5, "a tie at the top"
    assert weighted_majority(ONE, [0.9, 0.2, 0.2, 0.1], 4) == 1
    assert weighted_majority(ONE, [0.1, 0.6, 0.6, 0.9], 4) == 0
    assert weighted_majority(ONE, [0.9, 0.1, 0.8, 0.3], 2) == 0.5, "right in the first block of two alone"
    assert weighted_majority(ONE, [0, 0, 0, 0], 4) == 0
    assert weighted_majority(ONE, [-5, 1, 0, 0], 4) == 0
    assert weighted_majority(answers([True, False], [None, "2"]), [5, 1], 2) == 0, "no answer has no vote"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 2.0])), min_size=1, max_size=7), st.data())
def test_best_of_is_the_mean_over_all_subsets(rows: list[tuple[bool, float]], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rows)))
    one, picked = answers([right for right, _ in rows]), [score for _, score in rows]

    def chosen(subset: tuple[int, ...]) -> float:
        top = max(picked[n] for n in subset)
        return fmean(one.correct[n] for n in subset if picked[n] == top)

    assert best_of(one, picked, k) == pytest.approx(fmean(map(chosen, combinations(range(len(rows)), k))))
    assert best_of(one, [0.0] * len(rows), k) == pytest.approx(avg(one)), "a picker that knows nothing picks at random"
    assert best_of(one, [float(right) for right in one.correct], k) == pytest.approx(pass_at(one, k)), "one that knows all"


def test_what_does_not_fit_is_refused() -> None:
    for k, picked in ((0, [1.0] * 4), (5, [1.0] * 4), (2, [1.0] * 3)):
        with pytest.raises(ValueError, match="best-of-k"):
            best_of(ONE, picked, k)
        with pytest.raises(ValueError, match="weighted"):
            weighted_majority(ONE, picked, k)


def test_the_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.0, 1.0, 1.0, 0.25]
    mean, interval = mean_interval(values, key="a")
    assert interval is not None and interval.low < mean == fmean(values) < interval.high
    assert mean_interval(values, key="a") == (mean, interval)
    uneven = [value + number**2 / 100 for number, value in enumerate(values)]
    assert mean_interval(uneven, key="a")[1] != mean_interval(uneven, key="b")[1]
    assert mean_interval([1.0], key="a") == (1.0, None)
    narrow = mean_interval(values * 16, key="a")[1]
    assert narrow is not None and narrow.high - narrow.low < (interval.high - interval.low) / 2
    # Of 8 independent values the standard error is about 0.16; a 95 % interval is about four of them wide.
    assert 0.4 < interval.high - interval.low < 0.75


def test_the_report_of_an_evaluation_shows_the_same_intervals() -> None:
    random = Random(7)
    first, other = ({f"p{n}": PromptTally("a", "", 4, random.randint(0, 4)) for n in range(50)} for _ in range(2))
    mean, interval = mean_interval([one.correct / 4 for one in first.values()])
    shown = share(first.values())
    assert (shown["accuracy"], shown["low"], shown["high"]) == pytest.approx((mean, *(interval or ())))
    mean, interval = mean_interval([other[key].correct / 4 - first[key].correct / 4 for key in first])
    compared = compare_prompts(first, other) or {}
    assert (compared["gain"], compared["low"], compared["high"]) == pytest.approx((mean, *(interval or ())))


def test_many_different_values_have_an_interval_as_wide() -> None:
    few = [round(random, 1) for random in (Random(n).random() for n in range(400))]
    many = [value + n * 1e-9 for n, value in enumerate(few)]
    (_, one), (_, other) = mean_interval(few), mean_interval(many)
    assert one is not None and other is not None
    assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.1)


def test_powers() -> None:
    assert [powers(n) for n in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]
