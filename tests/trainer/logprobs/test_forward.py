"""Log-probabilities in padded micro-batches equal those of each row alone."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from verigym.trainer.logprobs.forward import PASS_TOKENS, completion_logprobs, micro_batches

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
COMPLETIONS = [[20, 21], [22], [23, 24, 25, 26, 27]]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_equals_each_row_alone(tiny_model: Any, temperature: float) -> None:
    logp, mask = completion_logprobs(tiny_model, PROMPTS, COMPLETIONS, temperature=temperature, pad_id=0)
    assert mask.sum(1).tolist() == [2, 1, 5]
    for row, (prompt, completion) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        logits = tiny_model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1] / temperature
        expected = torch.log_softmax(logits, -1)[range(len(completion)), completion]
        torch.testing.assert_close(logp[row, : len(completion)], expected, rtol=0, atol=1e-5)
        assert (logp[row, len(completion) :] == 0).all()


def test_bf16_is_near_and_leaves_the_weights_alone(tiny_model: Any) -> None:
    full, _ = completion_logprobs(tiny_model, PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0)
    half, _ = completion_logprobs(tiny_model, PROMPTS, COMPLETIONS, temperature=1.0, pad_id=0, dtype="bf16")
    assert half.dtype == torch.float32
    assert not torch.equal(full, half)
    torch.testing.assert_close(full, half, rtol=0, atol=0.05)
    assert all(parameter.dtype == torch.float32 for parameter in tiny_model.parameters())


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_micro_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(micro_batches(lengths, budget))
    assert sorted(row for batch in batches for row in batch) == [row for row, length in enumerate(lengths) if length]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget


@given(st.lists(st.integers(1, 200), max_size=7), st.integers(1, 600))
def test_micro_batches_are_cut_where_it_costs_least(lengths: list[int], budget: int) -> None:
    def cost(batches: list[list[int]]) -> int:
        return sum(PASS_TOKENS["cpu"] + len(batch) * max(batch) for batch in batches)

    ordered = sorted(lengths, reverse=True)
    choices = []
    for cuts in product([False, True], repeat=max(0, len(ordered) - 1)):
        batches = [ordered[:1]] if ordered else []
        for length, cut in zip(ordered[1:], cuts, strict=True):
            batches = [*batches, [length]] if cut else [*batches[:-1], [*batches[-1], length]]
        if all(len(batch) == 1 or len(batch) * batch[0] <= budget for batch in batches):
            choices.append(cost(batches))
    found = [[lengths[row] for row in batch] for batch in micro_batches(lengths, budget)]
    assert cost(found) == min(choices)
