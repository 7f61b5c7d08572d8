"""Pure functions that compute the time of a run: lengths of completions, and seconds from numbers of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

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

    @classmethod
    def of(cls, lengths: Lengths, rows_at_a_time: int, rounds: float = 1.0) -> Tokens:
        """Return the tokens of a step, of which at most `rows_at_a_time` completions are sampled at the same time."""
        texts = [length for group in lengths.completions for length in group]
        waves = sum(texts) / min(rows_at_a_time, len(texts))  # a row that has ended makes room for one that waits
        return cls(sum(lengths.prompts), sum(texts), rounds, max(max(texts), waves))

    def trained(self, config: TrainConfig) -> float:
        """Return the number of tokens that an update runs through the model.

        A prompt counts once for its group if the update shares prompts, otherwise once per completion.
        """
        return self.prompts * (1 if shares_prompts(config) else config.group_size) + self.completions


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


@dataclass(frozen=True)
class Speed:
    """The speed of generation and update in seconds, measured on a few small steps.

    Attention takes longer the more tokens come before; that growth is not counted.
    """

    prompt_token_s: float
    """Prefill."""
    decode_step_s: float
    """By a decoding step, whatever its rows: the weights are read once for all of them."""
    completion_token_s: float
    """By a row of a decoding step."""
    trained_token_s: float
    """Forward and backward pass."""
    update_s: float = 0.0
    """By a step of the run, whatever its tokens: the optimizer's work on the weights."""

    def generate(self, tokens: Tokens) -> float:
        """Return the seconds to sample `tokens`, prefill included."""
        decoding = self.decode_step_s * tokens.decode_steps + self.completion_token_s * tokens.completions
        return tokens.rounds * (self.prompt_token_s * tokens.prompts + decoding)

    def update(self, tokens: Tokens, config: TrainConfig) -> float:
        """Return the seconds of a step's updates."""
        return self.update_s + self.trained_token_s * tokens.trained(config)


def decoding_costs(samples: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return the seconds of a decoding step, and those of each of its rows, from (rows, seconds) of measured steps.

    The rows are sorted into powers of two, whose medians are fitted by a line of least relative error. Neither of the two
    numbers is negative; both are 0 without samples.
    """
    bins: dict[int, list[tuple[int, float]]] = {}
    for rows, seconds in samples:
        bins.setdefault(rows.bit_length(), []).append((rows, max(seconds, 1e-9)))
    points = [(fmean(rows for rows, _ in part), median(seconds for _, seconds in part)) for part in bins.values()]
    if not points:
        return 0.0, 0.0
    # Least squares of (step + row * rows - seconds) / seconds.
    ones = [1 / seconds for _, seconds in points]
    slopes = [rows / seconds for rows, seconds in points]
    a, b, c = sum(x * x for x in ones), sum(x * y for x, y in zip(ones, slopes, strict=True)), sum(y * y for y in slopes)
    determinant = a * c - b * b
    if determinant > 1e-9 * a * c:
        step_s, row_s = (c * sum(ones) - b * sum(slopes)) / determinant, (a * sum(slopes) - b * sum(ones)) / determinant
        if step_s >= 0 and row_s >= 0:
            return step_s, row_s
        if row_s < 0:
            return sum(ones) / a, 0.0
    return 0.0, sum(slopes) / c


def evaluations(config: TrainConfig) -> int:
    """Return how many evaluations a run has: before the first step, after every `eval_every` steps, and after the last."""
    return 1 + -(-config.steps // config.eval_every) if config.eval_every else 0
