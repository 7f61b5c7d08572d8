"""Accuracies of a reward model and of baselines on held-out data, with bootstrap intervals over prompts. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verigym.envs.metrics import Cluster, bootstrap_interval


@dataclass(frozen=True)
class Share:
    """A share, such as an accuracy, with its 95% interval. There is no interval (None) if there are fewer than two prompts."""

    value: float
    low: float | None
    high: float | None

    def as_json(self) -> list[float | None]:
        """Return [value, low, high], rounded to 4 digits."""
        return [None if one is None else round(one, 4) for one in (self.value, self.low, self.high)]


def share(halves: Sequence[int], keys: Sequence[str]) -> Share:
    """Return the share of correct rows with its percentile bootstrap interval, which resamples whole prompts.

    Args:
        halves: for each row its correctness in halves: 2 if it is right, 1 for a draw, 0 if it is wrong.
        keys: for each row the key of its prompt; rows of one prompt are not independent.

    Raises:
        ValueError: there are no rows, or the lengths differ.
    """
    if not halves or len(halves) != len(keys):
        raise ValueError(f"a share needs rows with a prompt each; got {len(halves)} rows and {len(keys)} prompts")
    found: defaultdict[str, list[int]] = defaultdict(list)
    for half, key in zip(halves, keys, strict=True):
        found[key].append(half)
    interval = bootstrap_interval([Cluster(sum(mine), 2 * len(mine)) for mine in found.values()])
    value = sum(halves) / (2 * len(halves))
    return Share(value, None, None) if interval is None or len(found) < 2 else Share(value, interval.low, interval.high)


def preferred(chosen: float, rejected: float) -> int:
    """Return, in halves as in `share`, 2 if `chosen` is greater than `rejected`, 1 if both are equal, 0 otherwise."""
    return int(chosen > rejected) + int(chosen >= rejected)


@dataclass(frozen=True)
class PairRow:
    """The features of a pair that the baselines use."""

    key: str
    """Of the prompt."""
    chosen_tokens: int
    rejected_tokens: int
    chosen_shown_first: bool
    """In an order drawn by hash."""


def pair_baselines(rows: Sequence[PairRow], train: Sequence[PairRow]) -> dict[str, Share]:
    """Return the accuracy of simple rules, by name, that choose between two answers without reading them.

    The rules `longer` and `shorter` compare the numbers of tokens; equal numbers are a draw. The rule `majority` sees each pair
    in an order drawn by hash and always prefers the same position: the one that is preferred in most training pairs.

    Args:
        rows: the held-out pairs.
        train: the training pairs.
    """
    keys = [row.key for row in rows]
    longer = [preferred(row.chosen_tokens, row.rejected_tokens) for row in rows]
    first = sum(row.chosen_shown_first for row in train) * 2 >= len(train)
    return {
        "longer": share(longer, keys),
        "shorter": share([2 - half for half in longer], keys),
        "majority": share([2 * (row.chosen_shown_first == first) for row in rows], keys),
    }


def step_shares(
    probabilities: Sequence[float], labels: Sequence[float], keys: Sequence[str], common: bool
) -> tuple[Share, Share]:
    """Return a process reward model's accuracy on labelled steps, and the accuracy of always answering `common`.

    Args:
        probabilities: for each step, the model's probability that it is right; the model's answer is "right" if this is at
            least 0.5.
        labels: for each step its label; the step counts as right if this is at least 0.5.
        keys: for each step the key of its task.
        common: True if more training steps are right than wrong.

    Raises:
        ValueError: there are no steps.
    """
    agreed = [2 * ((said >= 0.5) == (label >= 0.5)) for said, label in zip(probabilities, labels, strict=True)]
    floor = [2 * ((label >= 0.5) == common) for label in labels]
    return share(agreed, keys), share(floor, keys)


def flat(figures: Mapping[str, float | Share]) -> dict[str, float]:
    """Return `figures` as plain numbers for a log: a `Share` becomes its value.

    The ends of the interval of `accuracy`, if there is one, become `accuracy_low` and `accuracy_high`.
    """
    found = {name: value.value if isinstance(value, Share) else value for name, value in figures.items()}
    accuracy = figures["accuracy"]
    if isinstance(accuracy, Share) and accuracy.low is not None and accuracy.high is not None:
        found |= {"accuracy_low": accuracy.low, "accuracy_high": accuracy.high}
    return found
