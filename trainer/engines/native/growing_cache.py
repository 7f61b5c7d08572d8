"""Key-value cache with spare room: a new token is written in place, whereas transformers' own cache copies everything."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

SHARE, LEAST = 0.25, 32
"""The spare room for new tokens is `SHARE` times the number of present tokens, but at least `LEAST` tokens, and at most the
number of tokens still to come."""


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of one layer in buffers with spare room, so that adding a token rarely copies them.

    They have the shape `[B, H, L, D]`: rows, heads, tokens, head size. The buffers have room for at most `most` tokens.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, most: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._most = most
        self._buffers = self._with_room(keys), self._with_room(values)
        self._show(keys.shape[-2])

    def _show(self, length: int) -> None:
        self.keys, self.values = (buffer[:, :, :length] for buffer in self._buffers)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the keys and values of new tokens and return all keys and values."""
        start = self.keys.shape[-2]
        end = start + key_states.shape[-2]
        if end > self._buffers[0].shape[-2]:
            self._buffers = self._with_room(self.keys, end), self._with_room(self.values, end)
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = states
        self._show(end)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep only the rows `indices`."""
        self._buffers = self._with_room(self.keys[indices]), self._with_room(self.values[indices])
        self._show(self.keys.shape[-2])

    def _with_room(self, states: torch.Tensor, length: int | None = None) -> torch.Tensor:
        """Return a buffer that begins with `states` and has room for `length` tokens and some more."""
        there = states.shape[-2]
        length = length or there
        room = max(length, min(length + max(LEAST, int(SHARE * length)), self._most))
        buffer = states.new_empty((*states.shape[:-2], room, states.shape[-1]))
        buffer[..., :there, :] = states
        return buffer


def grow_in_place(cache: Any, new_tokens: int) -> None:
    """Replace the dynamic layers of `cache` by growing ones; other layers, such as sliding windows, stay as they are.

    Args:
        cache: cache of a transformers model; changed in place.
        new_tokens: most tokens that will be added; the spare room is never larger.
    """
    for number, layer in enumerate(getattr(cache, "layers", ())):
        if type(layer) is DynamicLayer and layer.is_initialized:
            cache.layers[number] = GrowingLayer(layer.keys, layer.values, layer.keys.shape[-2] + new_tokens)
