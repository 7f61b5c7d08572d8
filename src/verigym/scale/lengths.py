"""Distributions of lengths and times, fitted to the two figures in a run's metrics: the mean, and the maximum of a step."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist

_LARGEST_SIGMA = 2.5


@dataclass(frozen=True)
class LogNormal:
    """Log-normal distribution for lengths of completions and times of verdicts, which are positive and have a long tail.

    A draw above `most` is replaced by `most`.
    """

    mu: float
    sigma: float
    most: float

    @classmethod
    def of(cls, mean: float, largest: float, count: float, most: float = math.inf) -> LogNormal:
        """Return the log-normal distribution with mean `mean` whose `count` draws have a maximum of about `largest`.

        Let mu and sigma be the mean and the standard deviation of the logarithm of a draw, and n = `count`. The maximum of n
        draws is about exp(mu + sigma z), where z is the standard normal quantile of (n - 3/8) / (n + 1/4) (Blom, 1958). The
        mean is exp(mu + sigma^2 / 2). The ratio of maximum and mean gives sigma = z - sqrt(z^2 - 2 ln(largest / mean)). If the
        ratio is larger than any log-normal distribution allows, sigma = z is used. sigma is never above 2.5.

        Args:
            mean: mean of all draws; positive.
            largest: mean of the maxima of `count` draws.
            count: number of draws in one step.
            most: upper bound; a larger draw is replaced by it.
        """
        if largest <= mean or count <= 1:
            return cls(math.log(mean), 0.0, most)
        z = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
        sigma = min(z - math.sqrt(max(0.0, z * z - 2 * math.log(largest / mean))), _LARGEST_SIGMA)
        return cls(math.log(mean) - sigma * sigma / 2, sigma, most)

    def draw(self, randomness: random.Random) -> float:
        """Return one draw."""
        return min(self.most, math.exp(randomness.gauss(self.mu, self.sigma)) if self.sigma else math.exp(self.mu))
