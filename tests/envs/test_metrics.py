import itertools
import math
from collections import Counter

import pytest

from verigym.envs.metrics import Cluster, bootstrap_interval, majority_at_k, normalise_answer, pass_at_k


def test_pass_at_k_by_hand():
    assert pass_at_k(4, 1, 1) == 0.25
    assert pass_at_k(8, 3, 4) == pytest.approx(0.928571, abs=1e-6)  # 1 - 5/70
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)  # 3 of the 6 pairs hold the right one
    assert pass_at_k(4, 0, 4) == 0.0
    assert pass_at_k(4, 2, 3) == 1.0  # only two are wrong


def test_pass_at_k_is_the_share_of_subsets_with_a_right_one():
    for n in range(1, 8):
        for correct in range(n + 1):
            for k in range(1, n + 1):
                subsets = list(itertools.combinations(range(n), k))
                share = sum(min(subset) < correct for subset in subsets) / len(subsets)
                assert pass_at_k(n, correct, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_k_keeps_its_digits_where_binomials_are_huge():
    exact = 1 - math.comb(9000, 500) / math.comb(10_000, 500)
    assert pass_at_k(10_000, 1000, 500) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("n", "correct", "k"), [(3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1), (0, 0, 1)])
def test_pass_at_k_refuses_impossible_counts(n, correct, k):
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(n, correct, k)


def test_majority_wins_even_against_more_right_answers_spread_out():
    assert majority_at_k(["5", "5", "7"], [False, False, True], 3) == 0.0
    assert majority_at_k(["7", "5", "7.0"], [True, False, True], 3) == 1.0


def test_majority_ties_share_the_credit():
    assert majority_at_k(["1", "2"], [True, False], 2) == 0.5
    assert majority_at_k(["1", "2", "3"], [True, False, False], 3) == pytest.approx(1 / 3)


def test_majority_of_samples_without_answers():
    assert majority_at_k([None, None, "4"], [False, False, True], 3) == 1.0
    assert majority_at_k([None, None], [False, False], 2) == 0.0


def test_majority_averages_over_blocks_and_leaves_the_rest_out():
    answers, correct = ["1", "2", "1", "1", "2"], [True, False, True, True, False]
    assert majority_at_k(answers, correct, 1) == pytest.approx(3 / 5)
    assert majority_at_k(answers, correct, 2) == pytest.approx((0.5 + 1.0) / 2)
    assert majority_at_k(answers, correct, 5) == 1.0


@pytest.mark.parametrize("k", [0, 3])
def test_majority_refuses_too_few_samples(k):
    with pytest.raises(ValueError, match="maj@k needs"):
        majority_at_k(["1", "2"], [True, False], k)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1,000", "1000"), ("$7$", "7.0"), ("2/4", "0.5"), ("+3", "3"), (" a  b ", "a b"), ("-0", "0"), ("1,234.50", "1234.5")],
)
def test_answers_that_are_the_same_by_sight(one, other):
    assert normalise_answer(one) == normalise_answer(other)


@pytest.mark.parametrize(("one", "other"), [("0.333", "1/3"), ("1,00", "100"), ("x+1", "1+x"), ("X", "x"), ("1/0", "0")])
def test_answers_that_are_not(one, other):
    assert normalise_answer(one) != normalise_answer(other)


def test_hostile_answers_are_left_alone():
    for text in ("9" * 10_000, "1e999999999", "1/0", "٣", "", ".", "\ud800"):
        assert normalise_answer(text) == text


def test_bootstrap_interval_of_independent_samples_is_the_binomial_one():
    low, high = bootstrap_interval([Cluster(1, 1, 300), Cluster(0, 1, 700)], draws=20_000)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 1000)
    assert low == pytest.approx(0.3 - half, abs=0.002)
    assert high == pytest.approx(0.3 + half, abs=0.002)


def test_bootstrap_interval_is_wider_when_samples_of_a_group_agree():
    apart = bootstrap_interval([Cluster(1, 1, 400), Cluster(0, 1, 400)])
    together = bootstrap_interval([Cluster(8, 8, 50), Cluster(0, 8, 50)])
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_bootstrap_interval_depends_on_key_and_content_only():
    clusters = [Cluster(1, 4, 1000), Cluster(4, 4, 500)]
    spelled_out = [Cluster(4, 4)] * 500 + [Cluster(1, 4)] * 1000
    assert bootstrap_interval(clusters) == bootstrap_interval(spelled_out)
    assert bootstrap_interval(clusters) != bootstrap_interval(clusters, key="another")


def test_bootstrap_needs_two_groups():
    assert bootstrap_interval([Cluster(3, 8)]) is None
    assert bootstrap_interval([Cluster(0, 0, 5)]) is None
    assert bootstrap_interval([Cluster(8, 8, 2)]) == (1.0, 1.0)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_bootstrap_interval_is_that_of_all_ways_to_draw(level):
    kinds = [Cluster(1, 1, 3), Cluster(0, 2, 2), Cluster(3, 4, 1), Cluster(2, 5, 3)]
    groups = sum(kind.groups for kind in kinds)
    chances: Counter[float] = Counter()
    for times in itertools.product(range(groups + 1), repeat=len(kinds)):
        if sum(times) == groups:
            drawn = list(zip(times, kinds, strict=True))
            share = sum(count * kind.correct for count, kind in drawn) / sum(count * kind.n for count, kind in drawn)
            ways = math.factorial(groups) / math.prod(map(math.factorial, times))
            chances[share] += ways * math.prod((kind.groups / groups) ** count for count, kind in drawn)
    assert sum(chances.values()) == pytest.approx(1)
    low, high = bootstrap_interval(kinds, draws=40_000, level=level)
    for value, below in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
        assert sum(chance for share, chance in chances.items() if share < value - 1e-12) <= below + 0.01
        assert sum(chance for share, chance in chances.items() if share <= value + 1e-12) >= below - 0.01


@pytest.mark.parametrize("right, whole", [(60_000, 120_000), (40_000, 120_000), (119_880, 120_000), (210, 122_880)])
def test_bootstrap_interval_of_many_groups_is_the_normal_one(right, whole):
    share = right / whole
    low, high = bootstrap_interval([Cluster(1, 1, right), Cluster(0, 1, whole - right)], draws=400)
    half = 1.96 * math.sqrt(share * (1 - share) / whole)
    assert low == pytest.approx(share - half, abs=0.25 * half)
    assert high == pytest.approx(share + half, abs=0.25 * half)


@pytest.mark.parametrize("chance", [(1, 2), (1, 3), (999, 1000), (7, 4096)])
def test_a_draw_of_very_many_groups_is_near_their_share(chance):
    right, whole = chance[0] * 50_000, chance[1] * 50_000
    share = chance[0] / chance[1]
    drawn, _ = bootstrap_interval([Cluster(1, 1, right), Cluster(0, 1, whole - right)], draws=1)
    assert drawn == pytest.approx(share, abs=3 * math.sqrt(share * (1 - share) / whole))
