"""Lengths of the prompts and worked answers of a split, for choosing a run's `max_prompt_tokens` and `max_new_tokens`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from verigym.datasets_cfg.fields import FieldProblem, fill
from verigym.datasets_cfg.load import PromptDataset, RowError
from verigym.envs import Prompt


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of one kind of text, in tokens or characters."""

    sorted: tuple[tuple[int, int], ...]
    """Length and row of each, shortest first."""

    def at(self, share: float) -> int:
        """Return the length that a fraction `share` of the texts does not exceed.

        Args:
            share: a fraction above 0 and at most 1; 0.5 gives the median.
        """
        return self.sorted[math.ceil(share * len(self.sorted)) - 1][0]

    @property
    def longest_row(self) -> int:
        """Number of the row with the longest text, from 0."""
        return self.sorted[-1][1]


def lengths(
    dataset: PromptDataset,
    of_prompt: Callable[[Prompt], int],
    of_text: Callable[[str], int],
    on_row: Callable[[int], None] = lambda done: None,
) -> tuple[Lengths, Lengths, int]:
    """Return the prompts' lengths, the worked answers' lengths, and the number of rows that are skipped.

    A worked answer is the text that the description's field `worked` gives for the row. A row that does not fit the description
    is skipped.

    Args:
        dataset: the rows.
        of_prompt: returns the length of a prompt, including its template.
        of_text: returns the length of an answer.
        on_row: called with the number of rows done, for a progress bar.
    """
    prompts, answers, unfit = [], [], 0
    for row in range(len(dataset)):
        on_row(row)
        try:
            prompt, (_, task) = dataset[row], dataset.bare(row)
        except RowError:
            unfit += 1
            continue
        prompts.append((of_prompt(prompt), row))
        gold = dataset.environment.gold(prompt)
        if gold is not None:
            try:
                answers.append((of_text(fill(task.worked, {**task.row, "gold": gold})), row))
            except FieldProblem:  # a column that `worked` names is null in this row
                continue
    return Lengths(tuple(sorted(prompts))), Lengths(tuple(sorted(answers))), unfit
