"""Metrics over many verdicts: unbiased pass@k, majority voting, and a bootstrap interval that respects groups.

Pure functions of plain numbers and strings. A verdict that is missing because our side failed must be left out
before it gets here: it is neither right nor wrong.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from random import Random
from typing import NamedTuple

from verigym.envs.contract.schema import sha256_hex

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?")
_RATIO = re.compile(r"([+-]?\d+)\s*/\s*(\d+)")
MAX_NUMBER_CHARS = 200


class Interval(NamedTuple):
    """A range for a figure, both ends included."""

    low: float
    high: float


class Cluster(NamedTuple):
    """Stands for `groups` groups with the same counts: each has `n` verdicts, and `correct` of these `n` are right.

    For the mean of any other values, `correct` is a value and `n` is 1.
    """

    correct: float
    n: int
    groups: int = 1


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Return the unbiased estimate of the probability that at least one of k samples is right (arXiv 2107.03374).

    With `correct` of `n` samples right, the estimate is 1 - C(n - correct, k) / C(n, k), computed as a product so that large n
    neither overflows nor loses digits.

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= correct <= n.
    """
    if not 1 <= k <= n or not 0 <= correct <= n:
        raise ValueError(f"pass@k needs 1 <= k <= n and 0 <= correct <= n; got k={k}, n={n}, correct={correct}")
    wrong = n - correct
    if wrong < k:
        return 1.0
    all_wrong = 1.0
    for i in range(k):
        all_wrong *= (wrong - i) / (n - i)
    return 1.0 - all_wrong


def normalise_answer(answer: str) -> str:
    """Return `answer` in a standard spelling: spaces collapsed, plain numbers and ratios made exact.

    "1,000", "$1000.0$" and "2000/2" get the same spelling. "x+1" and "1+x" do not: only a grader could tell that these are
    equal, and majority voting works without one.
    """
    text = " ".join(answer.split()).strip("$ ")
    if len(text) > MAX_NUMBER_CHARS or not any(c.isdigit() for c in text):
        return text
    if not text.isascii():  # int() also reads digits of other scripts
        return text
    if _NUMBER.fullmatch(text):
        return str(Fraction(text.replace(",", "").rstrip(".")))
    ratio = _RATIO.fullmatch(text)
    if ratio and int(ratio[2]):
        return str(Fraction(int(ratio[1]), int(ratio[2])))
    return text


def majority_at_k(answers: Sequence[str | None], correct: Sequence[bool], k: int) -> float:
    """Return maj@k of one group, between 0 and 1: how often the most frequent of k answers is right.

    The samples are divided into blocks of k consecutive ones, and the result is the mean of the blocks' values. An incomplete
    last block is left out. Within a block, two answers are equal if `normalise_answer` returns the same for both. The value of
    the block is the share of right verdicts among the samples with the most frequent answer. If several answers are equally
    frequent, it is the mean of their shares, which is the expected value of breaking the tie at random. Samples without an
    answer do not vote, and a block without any vote has the value 0.

    Raises:
        ValueError: `answers` and `correct` differ in length, or there are fewer than k samples.
    """
    if len(answers) != len(correct) or not 1 <= k <= len(answers):
        raise ValueError(f"maj@k needs k samples; got k={k}, {len(answers)} answers and {len(correct)} verdicts")
    starts = range(0, len(answers) - k + 1, k)
    return math.fsum(_majority(answers[start : start + k], correct[start : start + k]) for start in starts) / len(starts)


def _majority(answers: Sequence[str | None], correct: Sequence[bool]) -> float:
    votes: Counter[str] = Counter()
    right: defaultdict[str, int] = defaultdict(int)
    for answer, is_right in zip(answers, correct, strict=True):
        if answer is not None:
            spelling = normalise_answer(answer)
            votes[spelling] += 1
            right[spelling] += is_right
    if not votes:
        return 0.0
    most = max(votes.values())
    tied = [answer for answer, count in votes.items() if count == most]
    return math.fsum(right[answer] / most for answer in tied) / len(tied)


def bootstrap_interval(
    clusters: Iterable[Cluster], *, level: float = 0.95, draws: int = 2000, key: str = "accuracy"
) -> Interval | None:
    """Return the percentile bootstrap interval of sum(correct) / sum(n), drawing whole groups with replacement.

    Samples of one prompt are not independent, so groups are drawn, not samples. Groups with equal (correct, n) are
    interchangeable: a draw is one multinomial over the distinct pairs, so its cost does not grow with the number of groups.
    If all groups have the same accuracy, the interval has width 0. The true uncertainty is then larger.

    Args:
        clusters: groups; equal groups may be given singly or counted together in one Cluster.
        level: fraction of the resamples whose accuracy lies inside the interval.
        draws: number of resamples.
        key: key of the random stream; the same key and clusters give the same interval.

    Returns:
        The interval, or None if there are fewer than two groups, because then every resample would be the same.
    """
    tally: Counter[tuple[float, int]] = Counter()
    for cluster in clusters:
        if cluster.n > 0:
            tally[cluster.correct, cluster.n] += cluster.groups
    if tally.total() < 2:
        return None
    pairs = sorted(tally)
    random = Random(int(sha256_hex(f"bootstrap/{key}")[:32], 16))
    below = [0, *accumulate(tally[pair] for pair in pairs)]
    shares = []
    for _ in range(draws):
        correct, total = 0.0, 0
        for pair, times in _drawn(random, below):
            correct += pairs[pair][0] * times
            total += pairs[pair][1] * times
        shares.append(correct / total)
    shares.sort()
    return Interval(_quantile(shares, (1 - level) / 2), _quantile(shares, (1 + level) / 2))


def _drawn(random: Random, below: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Draw as many things as there are, with replacement; yield how often each kind came, of those that did.

    The kinds are halved and each half gets a binomial share of what is left to draw, down to single kinds.

    Args:
        random: where chance comes from.
        below: [kinds + 1] how many things there are of the kinds before each, and of all.
    """
    todo = [(0, len(below) - 1, below[-1])]
    while todo:
        start, end, count = todo.pop()
        if not count:
            continue
        if end - start == 1:
            yield start, count
            continue
        middle = (start + end) // 2
        left = _binomial(random, count, below[middle] - below[start], below[end] - below[start])
        todo += [(start, middle, left), (middle, end, count - left)]


def _binomial(random: Random, trials: int, part: int, whole: int) -> int:
    """Draw how many of the trials succeed, exactly, each with the chance part / whole.

    A trial succeeds when a uniform number is below the chance. Its binary digits are drawn one after the other, for all
    trials at once; the first that differs from the chance's decides a trial, so each digit decides half of them.
    """
    successes = 0
    while trials and part:
        ones = random.getrandbits(trials).bit_count()
        part *= 2
        if part >= whole:  # the chance's digit is 1: a 0 is below it
            part -= whole
            successes += trials - ones
            trials = ones
        else:
            trials -= ones
    return successes


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile, between two values in proportion."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
