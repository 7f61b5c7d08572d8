"""Metrics of k samples per prompt: pass@k, majority, best-of-k. Pure functions.

The functions take verdicts, answers and the rewards of a picker. A picker is an environment, such as a reward model, that
scores samples without a reference answer.

`avg`, `pass_at` and `best_of` are unbiased: they are means over all subsets of k samples. Voting has no closed form for such a
mean, so `majority` and `weighted_majority` are means over blocks of k consecutive samples, as in `majority_at_k`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from verigym.envs.contract.schema import sha256_hex
from verigym.envs.metrics import Cluster, Interval, bootstrap_interval, majority_at_k, normalise_answer, pass_at_k

FEW_VALUES = 64
"""Up to so many different values, a bootstrap over how often each occurs takes milliseconds."""


@dataclass(frozen=True)
class ScoredSamples:
    """The scored samples of a prompt."""

    correct: tuple[bool, ...]
    answers: tuple[str | None, ...]
    tokens: tuple[int, ...]

    @property
    def n(self) -> int:
        """Return the number of scored samples."""
        return len(self.correct)


def avg(one: ScoredSamples) -> float:
    """Return the share of correct samples in `one`: avg@k, which is also the accuracy of a random pick."""
    return sum(one.correct) / one.n


def pass_at(one: ScoredSamples, k: int) -> float:
    """Return the probability that at least one of `k` samples is correct; see `envs.metrics.pass_at_k`."""
    return pass_at_k(one.n, sum(one.correct), k)


def majority(one: ScoredSamples, k: int) -> float:
    """Return the expected accuracy of the most frequent of k answers; see `envs.metrics.majority_at_k`."""
    return majority_at_k(one.answers, one.correct, k)


def best_of(one: ScoredSamples, picked: Sequence[float], k: int) -> float:
    """Return best-of-k: the chance that, in a random subset of k samples, the sample with the highest score is correct.

    Let the n samples be sorted by score, highest first, and numbered from 0. Sample i has the highest score in
    `C(n - 1 - i, k - 1)` of the `C(n, k)` subsets, and best-of-k is the share of subsets whose highest sample is correct.
    Among samples of equal score, each is picked with equal chance, so each counts with their mean correctness.

    Args:
        one: the samples of a prompt.
        picked: the picker's score of each sample.
        k: size of the subsets, from 1 to the number of samples.

    Raises:
        ValueError: `k` is out of range, or `picked` does not have one score per sample.
    """
    if len(picked) != one.n or not 1 <= k <= one.n:
        raise ValueError(f"best-of-k needs a score a sample and 1 <= k <= n; got k={k}, n={one.n} and {len(picked)} scores")
    groups: dict[float, list[bool]] = defaultdict(list)
    for score, right in zip(picked, one.correct, strict=True):
        groups[score].append(right)
    left, total = one.n, 0.0
    for score in sorted(groups, reverse=True):
        mine = groups[score]
        # Subsets whose best is in this group: those of what is left without those that avoid it.
        chance = (comb(left, k) - comb(left - len(mine), k)) / comb(one.n, k)
        total += chance * sum(mine) / len(mine)
        left -= len(mine)
    return total


def weighted_majority(one: ScoredSamples, weights: Sequence[float], k: int) -> float:
    """Return the expected accuracy of weighted voting among k samples: the answer with the largest sum of weights is chosen.

    See Math-Shepherd, arXiv 2312.08935, section 4.3. `weights` are a picker's scores of the samples. A weight below 0 counts as
    0; if all weights are 0, the result is 0. Apart from the weights, the computation is that of `majority_at_k`.

    Raises:
        ValueError: `k` is out of range, or there is not one weight per sample.
    """
    if len(weights) != one.n or not 1 <= k <= one.n:
        raise ValueError(
            f"weighted maj@k needs a weight a sample and 1 <= k <= n; got k={k}, n={one.n}, {len(weights)} weights"
        )
    starts = range(0, one.n - k + 1, k)
    return sum(_weighted(one, weights, start, start + k) for start in starts) / len(starts)


def _weighted(one: ScoredSamples, weights: Sequence[float], start: int, end: int) -> float:
    votes: defaultdict[str, float] = defaultdict(float)
    right: defaultdict[str, list[bool]] = defaultdict(list)
    for place in range(start, end):
        answer = one.answers[place]
        if answer is not None:
            spelling = normalise_answer(answer)
            votes[spelling] += max(0.0, weights[place])
            right[spelling].append(one.correct[place])
    most = max(votes.values(), default=0.0)
    if most <= 0:
        return 0.0
    tied = [answer for answer, weight in votes.items() if weight == most]
    return sum(sum(right[answer]) / len(right[answer]) for answer in tied) / len(tied)


def mean_interval(
    values: Sequence[float], *, key: str = "accuracy", level: float = 0.95, draws: int = 2000
) -> tuple[float, Interval | None]:
    """Return the mean over prompts and its percentile bootstrap interval, drawing whole prompts with replacement.

    Where few values occur, as with shares of a few samples, the interval is that of `envs.metrics.bootstrap_interval`, to the
    digit: a report shows the same one.

    Args:
        values: one value per prompt.
        key: seeds the random draws.
        level: share of the resampled means that lie inside the interval.
        draws: number of resamples.

    Returns:
        (mean, interval); the interval is None with fewer than two prompts.

    Raises:
        ValueError: there are no values.
    """
    import numpy as np

    if not values:
        raise ValueError("a mean needs at least one value")
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2:
        return float(numbers.mean()), None
    tally = Counter(values)
    if len(tally) <= FEW_VALUES:
        clusters = [Cluster(value, 1, prompts) for value, prompts in tally.items()]
        return float(numbers.mean()), bootstrap_interval(clusters, level=level, draws=draws, key=key)
    random = np.random.Generator(np.random.Philox(key=int(sha256_hex(f"prompts/{key}")[:32], 16)))
    means = np.array([numbers[random.integers(0, len(numbers), len(numbers))].mean() for _ in range(draws)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(numbers.mean()), Interval(float(low), float(high))


def powers(n: int) -> list[int]:
    """Return 1, 2, 4... up to `n`, and `n` itself."""
    counts = [1]
    while counts[-1] * 2 <= n:
        counts.append(counts[-1] * 2)
    return counts if counts[-1] == n else [*counts, n]
