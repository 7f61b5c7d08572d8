"""Means and intervals over seeds and questions: pure functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

from verigym.envs.contract.schema import sha256_hex
from verigym.envs.metrics import Interval

# The 97.5% quantiles of Student's t for 1, 2, ... degrees of freedom.
T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def t_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95% interval of a mean over seeds by Student's t; None for fewer than two.

    Beyond 11 values it takes the quantile of 11, which makes it a little too wide.

    Args:
        values: one a seed.
    """
    if len(values) < 2:
        return None
    mean = fmean(values)
    half = T_QUANTILES[min(len(values) - 1, len(T_QUANTILES)) - 1] * stdev(values) / math.sqrt(len(values))
    return Interval(mean - half, mean + half)


def crossed_interval(values: Sequence[Sequence[float]], *, key: str, draws: int = 4000) -> Interval:
    """Return the 95% percentile bootstrap interval of the mean over seeds and questions, drawing both with replacement.

    The questions are the same for all seeds, so a draw takes the same questions of each seed that it takes. With few seeds the
    interval is too narrow for what other seeds would give; `t_interval` over seeds is the cautious one.

    Args:
        values: (seeds, questions).
        key: names the random stream; equal keys and shapes draw the same, so differences of two arms are paired.
        draws: number of resamples.

    Raises:
        ValueError: no values, or seeds with different numbers of questions.
    """
    lengths = {len(row) for row in values}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"each seed needs the same questions, at least one; got {sorted(lengths)}")
    table = np.asarray(values, dtype=np.float64)
    random = np.random.Generator(np.random.Philox(key=int(sha256_hex(f"crossed/{key}")[:32], 16)))
    seeds, questions = table.shape
    # How often each is drawn; the mean over the drawn cells is a bilinear form in these counts.
    rows = random.multinomial(seeds, np.full(seeds, 1 / seeds), draws)
    columns = random.multinomial(questions, np.full(questions, 1 / questions), draws)
    means = ((rows @ table) * columns).sum(axis=1) / (seeds * questions)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


def ratio(counts: Sequence[tuple[float, float]]) -> float:
    """Return the sum of what is right over the sum of what is counted.

    Args:
        counts: (right, counted) of each task; something is counted.
    """
    return sum(right for right, _ in counts) / sum(of for _, of in counts)


def nested_interval(values: Sequence[Sequence[tuple[float, float]]], *, key: str, draws: int = 2000) -> Interval:
    """Return the 95% percentile bootstrap interval of the mean over seeds of `ratio`, where each seed has tasks of its own.

    A draw takes seeds with replacement, and of each that it takes, tasks with replacement. With one seed it is the bootstrap
    over tasks. With few seeds it is too narrow for what other seeds would give, as `crossed_interval` is.

    Args:
        values: (right, counted) by seed and task; each seed has tasks of which something is counted.
        key: names the random stream.
        draws: number of resamples.

    Raises:
        ValueError: no seeds, or a seed in which nothing is counted.
    """
    tables = [np.asarray(tasks, dtype=np.float64).reshape(-1, 2) for tasks in values]
    if not tables or any(table[:, 1].sum() <= 0 for table in tables):
        raise ValueError("each seed needs tasks of which something is counted")
    random = np.random.Generator(np.random.Philox(key=int(sha256_hex(f"nested/{key}")[:32], 16)))
    means = []
    for _ in range(draws):
        drawn = [tables[seed] for seed in random.integers(0, len(tables), len(tables))]
        sums = [table[random.integers(0, len(table), len(table))].sum(axis=0) for table in drawn]
        means.append(float(np.mean([right / of for right, of in sums if of])))
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))
