"""The cache with room gives what transformers' own gives, bit for bit."""

from __future__ import annotations

import pytest
import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from verigym.trainer.engines.native.growing_cache import LEAST, GrowingLayer, grow_in_place
from verigym.trainer.rng import keyed_uniforms


def states(tokens: int, *key: object, rows: int = 3) -> torch.Tensor:
    return keyed_uniforms(rows * 2 * tokens * 4, *key).reshape(rows, 2, tokens, 4)


@pytest.mark.parametrize("most", [10, 2 * LEAST, 1000])
def test_growing_and_selecting_rows_are_those_of_the_plain_cache(most: int) -> None:
    plain = DynamicLayer()
    plain.update(states(5, "k"), states(5, "v"))
    roomy = GrowingLayer(plain.keys, plain.values, 5 + most)
    for step in range(2 * LEAST):
        rows = plain.keys.shape[0]
        new = states(1, "k", step, rows=rows), states(1, "v", step, rows=rows)
        for mine, its in zip(roomy.update(*new), plain.update(*new), strict=True):
            assert torch.equal(mine, its)
        if step in (3, LEAST + 9):
            keep = torch.tensor([row for row in range(rows) if row != 1])
            plain.batch_select_indices(keep)
            roomy.batch_select_indices(keep)
        assert roomy.get_seq_length() == plain.get_seq_length()
    assert torch.equal(roomy.keys, plain.keys)
    assert torch.equal(roomy.values, plain.values)
    assert plain.keys.shape[0] == 1


def test_a_new_token_is_written_in_place() -> None:
    roomy = GrowingLayer(states(5, "k"), states(5, "v"), 9)
    before = roomy.keys.data_ptr()
    roomy.update(states(1, "k2"), states(1, "v2"))
    assert roomy.keys.data_ptr() == before


@pytest.mark.parametrize("new_tokens", [1, LEAST - 1, 3 * LEAST])
def test_no_buffer_is_larger_than_the_tokens_that_can_come(new_tokens: int) -> None:
    cache = DynamicCache()
    cache.update(states(50, "k"), states(50, "v"), 0)
    grow_in_place(cache, new_tokens)
    layer, sizes = cache.layers[0], []
    for step in range(new_tokens):
        layer.update(states(1, "k", step), states(1, "v", step))
        if step == LEAST // 2:
            layer.batch_select_indices(torch.arange(3))
        sizes += [states_.untyped_storage().nbytes() for states_ in (layer.keys, layer.values)]
    assert layer.get_seq_length() == 50 + new_tokens
    a_token = 3 * 2 * 4 * layer.keys.element_size()
    assert max(sizes) == (50 + new_tokens) * a_token


def test_layers_with_rules_of_their_own_stay() -> None:
    cache = DynamicCache()
    cache.update(states(5, "k"), states(5, "v"), 0)
    cache.layers.append(DynamicSlidingWindowLayer(sliding_window=4))
    cache.update(states(5, "k"), states(5, "v"), 1)
    cache.layers.append(DynamicLayer())  # not used yet
    grow_in_place(cache, 3)
    assert [type(layer) for layer in cache.layers] == [GrowingLayer, DynamicSlidingWindowLayer, DynamicLayer]
