"""Packed rows: full, in a fixed order, and the same log-probabilities as rows of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.trainer.logprobs.forward import ForwardOptions, row_logprobs
from verigym.trainer.stages.packing import pack, packable, packed_passes, score_packed

PROMPTS = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]
COMPLETIONS = [[20, 21], [22, 23, 24, 1], [25], [26, 1]]


def test_the_rows_of_a_small_case() -> None:
    assert pack([3, 7, 5, 2, 9, 4], 10) == [[4], [1, 0], [2, 5], [3]]
    assert pack([12, 1], 10) == [[0], [1]], "what is longer than a row is alone"
    assert pack([], 10) == []


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(20, 60))
def test_every_sequence_is_in_one_row_that_holds_it(lengths: list[int], capacity: int) -> None:
    rows = pack(lengths, capacity)
    assert sorted(number for row in rows for number in row) == list(range(len(lengths)))
    assert all(sum(lengths[number] for number in row) <= capacity for row in rows)
    fewest = -(-sum(lengths) // capacity)
    assert len(rows) <= max(len(lengths) and 1, 2 * fewest)


def test_packed_rows_say_the_same_as_rows_of_their_own(tiny_model: Any) -> None:
    how = ForwardOptions(pad_id=0)
    with torch.no_grad():
        alone = row_logprobs(tiny_model, PROMPTS, COMPLETIONS, how).logp_BT
        rows = [[0, 3, 1], [2]]
        packed = score_packed(tiny_model, rows, PROMPTS, COMPLETIONS, how).logp_BT
    for place, number in enumerate([0, 3, 1, 2]):
        length = len(COMPLETIONS[number])
        torch.testing.assert_close(packed[place, :length], alone[number, :length], rtol=1e-4, atol=1e-5)


def test_a_model_that_mixes_examples_up_gets_a_row_for_each(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packable(tiny_model)
    how = ForwardOptions(pad_id=0)
    assert sum(1 for _ in packed_passes(tiny_model, PROMPTS, COMPLETIONS, how, 100)) == 1

    class Mixing(torch.nn.Module):
        """Ignores where an example begins."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = tiny_model
            self.device = tiny_model.device

        def get_output_embeddings(self) -> None:
            return None

        def forward(self, input_ids: torch.Tensor, position_ids: Any = None, use_cache: bool = False) -> Any:
            return self.inner(input_ids=input_ids, use_cache=False)

    mixing = Mixing()
    assert not packable(mixing)
    found = {}
    with torch.no_grad():
        for numbers, run in packed_passes(mixing, PROMPTS, COMPLETIONS, how, 100):
            found.update({number: row for number, row in zip(numbers, run(None).logp_BT, strict=True)})
        alone = row_logprobs(tiny_model, PROMPTS, COMPLETIONS, how).logp_BT
    for number, completion in enumerate(COMPLETIONS):
        length = len(completion)
        torch.testing.assert_close(found[number][:length], alone[number, :length], rtol=1e-4, atol=1e-5)
