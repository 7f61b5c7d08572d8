"""Pure functions that compute the time of a run: lengths of completions, and seconds from numbers of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

import torch

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.dry_run.formulas import Lengths, shares_prompts


@dataclass(frozen=True)
class Tokens:
    """The numbers of tokens of one step, or of one evaluation."""

    prompts: float
    """Each prompt once."""
    completions: float
    rounds: float = 1.0
    """Rounds of generation in a step: more than one if groups are drawn until enough have a signal (dynamic sampling)."""
    decode_steps: float = 0.0
    """Passes through the model that decode one token of each row that is being sampled."""
    attended: float = 0.0
    """Tokens of its completion before each sampled token, summed over all sampled tokens."""

    @classmethod
    def of(cls, lengths: Lengths, rows_at_a_time: int, rounds: float = 1.0) -> Tokens:
        """Return the tokens of a step, of which at most `rows_at_a_time` completions are sampled at the same time."""
        texts = [length for group in lengths.completions for length in group]
        waves = sum(texts) / min(rows_at_a_time, len(texts))  # a row that has ended makes room for one that waits
        return cls(sum(lengths.prompts), sum(texts), rounds, max(max(texts), waves), sum(attended(text) for text in texts))

    def trained(self, config: TrainConfig) -> float:
        """Return the number of tokens that an update runs through the model.

        A prompt counts once for its group if the update shares prompts, otherwise once per completion.
        """
        return self.prompts * (1 if shares_prompts(config) else config.group_size) + self.completions


def attended(length: int) -> float:
    """Return `Tokens.attended` of one completion."""
    return length * (length - 1) / 2


def completion_lengths(observed: Sequence[int], cut: Sequence[bool], most: int, count: int) -> list[int]:
    """Return `count` lengths in tokens that completions may have, from a few that were measured under a lower token limit.

    The measured lengths are repeated in their order. A completion that the lower limit cut off is continued: with each further
    token it ends with the probability with which any measured token was the last, so that what remains of it is exponentially
    distributed. If no measured completion ended by itself, all lengths are `most`.

    Args:
        observed: measured lengths in tokens.
        cut: True for each completion that the lower limit cut off.
        most: the run's own token limit.
        count: number of lengths.
    """
    ends = len(cut) - sum(cut)
    if not ends:
        return [most] * count
    mean = sum(observed) / ends
    numbers = [number % len(observed) for number in range(count)]
    going_on, quantile, lengths = sum(cut[number] for number in numbers), 0.5, []
    for number in numbers:
        length: float = observed[number]
        if cut[number]:
            length -= mean * math.log(quantile / going_on)
            quantile += 1
        lengths.append(min(most, round(length)))
    return lengths


class DecodingCosts(NamedTuple):
    """The seconds of a decoding step as a sum of three parts."""

    step_s: float = 0.0
    """By a step, whatever its rows: the weights are read once for all of them."""
    row_s: float = 0.0
    """By a row."""
    attended_s: float = 0.0
    """By a token of its completion that a row attends to."""

    def of(self, rows: float, position: float) -> float:
        """Return the seconds of a step with `rows` rows, each of `position` tokens."""
        return self.step_s + rows * (self.row_s + position * self.attended_s)


@dataclass(frozen=True)
class Speed:
    """The speed of generation and update in seconds, measured on a few small steps.

    Attention of prompts and in updates takes longer in long texts; that growth is not counted.
    """

    prompt_token_s: float
    """Prefill."""
    decoding: DecodingCosts
    trained_token_s: float
    """Forward and backward pass."""
    update_s: float = 0.0
    """By a step of the run, whatever its tokens: the optimizer's work on the weights."""

    def generate(self, tokens: Tokens) -> float:
        """Return the seconds to sample `tokens`, prefill included."""
        step_s, row_s, attended_s = self.decoding
        decoding = step_s * tokens.decode_steps + row_s * tokens.completions + attended_s * tokens.attended
        return tokens.rounds * (self.prompt_token_s * tokens.prompts + decoding)

    def update(self, tokens: Tokens, config: TrainConfig) -> float:
        """Return the seconds of a step's updates."""
        return self.update_s + self.trained_token_s * tokens.trained(config)


def decoding_costs(samples: Sequence[tuple[int, int, float]]) -> DecodingCosts:
    """Return the costs of decoding from (rows, tokens of each, seconds) of measured steps.

    Samples are sorted by powers of two of rows and of tokens. The medians of these groups are fitted by least relative error;
    no cost is negative. All costs are 0 without samples.
    """
    groups: dict[tuple[int, int], list[tuple[int, int, float]]] = {}
    for sample in samples:
        groups.setdefault((sample[0].bit_length(), sample[1].bit_length()), []).append(sample)
    if not groups:
        return DecodingCosts()
    points = []
    for part in groups.values():
        rows, positions, seconds = zip(*part, strict=True)
        typical = max(median(seconds), 1e-9)
        points.append(
            [1 / typical, fmean(rows) / typical, fmean(r * t for r, t in zip(rows, positions, strict=True)) / typical]
        )
    matrix = torch.tensor(points, dtype=torch.float64)
    best, least = DecodingCosts(), math.inf
    # The best fit without negative costs is the plain least-squares fit of one choice of costs that are not 0.
    for chosen in ((0,), (1,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        part_matrix = matrix[:, chosen]
        found = torch.linalg.lstsq(part_matrix, torch.ones(len(points), 1, dtype=torch.float64), driver="gelsd").solution
        error = float((part_matrix @ found - 1).square().sum())
        if float(found.min()) >= 0 and error < least - 1e-12:
            costs = dict(zip(chosen, found[:, 0].tolist(), strict=True))
            best, least = DecodingCosts(*(costs.get(number, 0.0) for number in range(3))), error
    return best


def evaluations(config: TrainConfig) -> int:
    """Return how many evaluations a run has: before the first step, after every `eval_every` steps, and after the last."""
    return 1 + -(-config.steps // config.eval_every) if config.eval_every else 0
