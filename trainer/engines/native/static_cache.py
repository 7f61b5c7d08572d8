"""Key-value cache in buffers of a fixed size. CUDA graphs need it, because each step must repeat operations on the same memory.

Each row has its own copy of its prompt.

Legend: B rows, K key heads, H query heads, S prompt tokens, L places for tokens, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from verigym.trainer.engines.native.llama_step import Attend
from verigym.trainer.engines.native.prefix_cache import Layout

NARROWEST = 64
"""Least number of positions that a step attends to; CUDA's kernels want mask rows that are multiples of 8."""


class StaticCache:
    """The keys and values of all layers, and the inputs of a step, in tensors whose addresses never change, for CUDA graphs."""

    def __init__(
        self,
        layers: int,
        key_heads: int,
        head_size: int,
        scale: float,
        dtype: torch.dtype,
        device: torch.device,
        *,
        rows: int,
        positions: int,
    ) -> None:
        """Allocate memory for `rows` rows of `positions` tokens each, prompts included."""
        self.layout = Layout()
        self.scale, self.device = scale, device
        self._most = rows
        self._width = -(-positions // NARROWEST) * NARROWEST
        # Zeros, because masked values are still multiplied, and new memory may hold nan.
        self._states = torch.zeros(layers, 2, rows, key_heads, self._width, head_size, dtype=dtype, device=device)
        self.token_B = torch.zeros(rows, dtype=torch.long, device=device)
        self.length_B = torch.zeros(rows, dtype=torch.long, device=device)
        self._row_B = torch.arange(rows, device=device)
        self._place_L = torch.arange(self._width, device=device)
        self._starts: dict[int, int] = {}
        self._waiting: list[tuple[Sequence[int], Sequence[tuple[torch.Tensor, torch.Tensor]]]] = []

    def add_prompts(
        self, names: Sequence[int], states: Sequence[tuple[torch.Tensor, torch.Tensor]], lengths: Sequence[int]
    ) -> None:
        """Store prompts for the rows that the next call of `add_rows` adds; for the arguments see `PrefixCache.add_prompts`."""
        self._starts.update(zip(names, lengths, strict=True))
        self._waiting.append((names, states))

    def add_rows(self, names: Sequence[int]) -> None:
        """Add a row without tokens for each of the prompts numbered `names`, in order."""
        layout = self.layout
        first = len(layout.owners)
        source = {name: row for row, name in enumerate(layout.owners)}
        there = set(source)
        for row, name in enumerate(names, first):
            source.setdefault(name, row)
        for given, states in self._waiting:
            rows_P = torch.tensor([source[name] for name in given], device=self.device)
            for layer, pair in enumerate(states):
                for place, part_PKSD in enumerate(pair):
                    width = min(part_PKSD.shape[2], self._width)
                    self._states[layer, place, rows_P, :, :width] = part_PKSD[:, :, :width].to(self._states.dtype)
        self._waiting = []
        for row, name in enumerate(names, first):
            if name in there or source[name] != row:
                self._copy(source[name], row, self._starts[name])
        layout.owners += names
        layout.lengths += [self._starts[name] for name in names]
        layout.names = list(dict.fromkeys(layout.owners))
        self.length_B[first : len(layout.owners)] = torch.tensor(layout.lengths[first:], device=self.device)

    def remove(self, row: int) -> None:
        """Remove the row numbered `row`; the last row takes its number."""
        layout = self.layout
        last = len(layout.owners) - 1
        if row != last:
            self._copy(last, row, layout.lengths[last])
            self.length_B[row] = self.length_B[last]
        for values in (layout.owners, layout.lengths):
            values[row] = values[last]
            values.pop()
        layout.names = list(dict.fromkeys(layout.owners))

    def states(self, row: int) -> list[torch.Tensor]:
        """Return a copy of the keys and values of the row numbered `row`: one tensor `[2, K, L, D]` per layer."""
        return list(self._states[:, :, row, :, : self.layout.lengths[row]].clone())

    def _copy(self, source: int, target: int, length: int) -> None:
        self._states[:, :, target, :, :length] = self._states[:, :, source, :, :length]

    def begin(self, token_B: torch.Tensor) -> tuple[int, int]:
        """Store the next token of each row, and return how many rows and how many positions the step must compute.

        Both numbers are rounded up, to powers of two if the buffers allow, so that steps have few different shapes. Results of
        surplus rows and positions are ignored.
        """
        self.token_B[: len(token_B)] = token_B
        return _rounded(len(token_B), 1, self._most), _rounded(max(self.layout.lengths) + 1, NARROWEST, self._width)

    def attention(self, rows: int, width: int) -> Attend:
        """Return the attention of a step over `rows` rows and `width` positions; see `llama_step.Attend`."""
        row_B, length_B = self._row_B[:rows], self.length_B[:rows]
        seen_B11L = (self._place_L[:width] <= length_B[:, None])[:, None, None]

        def attend(layer: int, query_BHD: torch.Tensor, key_BKD: torch.Tensor, value_BKD: torch.Tensor) -> torch.Tensor:
            keys_BKLD, values_BKLD = self._states[layer, 0, :rows], self._states[layer, 1, :rows]
            keys_BKLD[row_B, :, length_B] = key_BKD
            values_BKLD[row_B, :, length_B] = value_BKD.to(values_BKLD.dtype)
            # The query heads of a key head take the axis of the sequence: all of them see the same positions.
            query_BKXD = query_BHD.reshape(rows, key_BKD.shape[1], -1, query_BHD.shape[-1])
            found = scaled_dot_product_attention(
                query_BKXD, keys_BKLD[:, :, :width], values_BKLD[:, :, :width], attn_mask=seen_B11L, scale=self.scale
            )
            return found.reshape(query_BHD.shape)

        return attend

    def end(self) -> None:
        """Increase each row's length by the token of this step."""
        self.layout.lengths = [length + 1 for length in self.layout.lengths]
        self.length_B[: len(self.layout.lengths)] += 1


def _rounded(count: int, least: int, most: int) -> int:
    """Return the smallest number not below `count` among `least`, its doublings, and `most`."""
    size = least
    while size < count:
        size *= 2
    return min(size, most)
