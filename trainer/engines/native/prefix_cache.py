"""Key-value cache that stores each prompt once for all its rows, and each completion in its row's slot.

The softmax runs over the scores of the prompt's and the completion's tokens together. Products with a prompt are computed for
all its rows at once (Hydragen, arXiv 2402.05099). So the prompt's keys and values are read once instead of once per row.

Legend: B rows, P prompts, G rows of a prompt, K key heads, R query heads of a key head, S prompt tokens, T completion tokens,
D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

SHARE, LEAST = 0.25, 32
"""The spare room for new tokens is `SHARE` times the number of present tokens, but at least `LEAST` tokens."""


@dataclass
class Layout:
    """The numbering of rows and prompts in the cache: a row's or prompt's number is its index in these lists."""

    owners: list[int] = field(default_factory=list)
    """Each row's prompt."""
    lengths: list[int] = field(default_factory=list)
    """Each row's number of completion tokens."""
    prompts: list[int] = field(default_factory=list)
    """Each prompt's number of tokens."""
    names: list[int] = field(default_factory=list)
    """Each prompt's index at the caller."""

    def grid(self) -> tuple[int, list[int]]:
        """Arrange the rows in a grid with one line per prompt; return its width G and each row's index in the flattened grid.

        G is the largest number of rows of a prompt; for P prompts the grid has P times G places.
        """
        counts = [0] * len(self.prompts)
        places = []
        for owner in self.owners:
            places.append(counts[owner])
            counts[owner] += 1
        most = max(counts)
        return most, [owner * most + place for owner, place in zip(self.owners, places, strict=True)]


class PrefixCache:
    """The keys and values of all layers, in which the rows of a prompt share the keys and values of the prompt.

    When a row is removed, the last row moves into its slot; nothing else is copied.
    """

    def __init__(self, layers: int, key_heads: int, head_size: int, scale: float, dtype: torch.dtype, device: torch.device):
        self.layout = Layout()
        self.scale, self.device, self._key_heads = scale, device, key_heads
        empty = torch.empty(2, 0, key_heads, 0, head_size, dtype=dtype, device=device)
        # Per layer, keys and values stacked: [2, P, K, S, D] and [2, B, K, T, D], with spare room.
        self._prompts, self._texts = [empty] * layers, [empty] * layers
        self._arranged = False
        self.joined = False
        """Whether prompts may be added during decoding. If so, a buffer that grows for a longer prompt gets spare room for
        still longer ones."""
        self._length_B = self._start_B = torch.empty(0, dtype=torch.long, device=device)

    def add_prompts(
        self, names: Sequence[int], states: Sequence[tuple[torch.Tensor, torch.Tensor]], lengths: Sequence[int]
    ) -> None:
        """Append prompts.

        Args:
            names: the caller's number for each prompt, by which `add_rows` refers to it.
            states: keys and values `[P, K, S, D]` of each layer; positions after a prompt's length are ignored.
            lengths: each prompt's number of tokens.
        """
        first = len(self.layout.prompts)
        self.layout.prompts += lengths
        self.layout.names += names
        for number, pair in enumerate(states):
            kept = self._prompts[number]
            width = max(lengths)
            wanted = width + int(SHARE * width) if self.joined and width > kept.shape[3] else max(width, kept.shape[3])
            kept = self._prompts[number] = _with_room(kept, len(self.layout.prompts), wanted)
            for place, part in enumerate(pair):
                kept[place, first : first + len(lengths), :, :width] = part[:, :, :width]
        self._arranged = False

    def add_rows(self, names: Sequence[int]) -> None:
        """Add a row without tokens for each of the prompts numbered `names`, in order."""
        numbers = {name: number for number, name in enumerate(self.layout.names)}
        self.layout.owners += [numbers[name] for name in names]
        self.layout.lengths += [0] * len(names)
        self._arranged = False

    def remove(self, row: int) -> None:
        """Remove the row numbered `row`. If it was the last row of its prompt, remove the prompt, too.

        The row with the highest number takes the number that became free; prompts are renumbered in the same way.
        """
        layout = self.layout
        owner = layout.owners[row]
        _fill(self._texts, row, layout.owners, layout.lengths)
        if owner not in layout.owners:
            last = len(layout.prompts) - 1
            _fill(self._prompts, owner, layout.prompts, layout.names)
            layout.owners = [owner if other == last else other for other in layout.owners]
        self._arranged = False

    def states(self, row: int) -> list[torch.Tensor]:
        """Return a copy of the keys and values of the row numbered `row`: those of its prompt, then those of its own tokens.

        There is one tensor `[2, K, S + T, D]` per layer.
        """
        layout = self.layout
        owner, length = layout.owners[row], layout.lengths[row]
        prompts = [kept[:, owner, :, : layout.prompts[owner]] for kept in self._prompts]
        if not length:  # a row that has no token yet may have no slot either
            return [kept.clone() for kept in prompts]
        texts = (kept[:, row, :, :length] for kept in self._texts)
        return [torch.cat(pair, dim=2) for pair in zip(prompts, texts, strict=True)]

    def begin(self) -> torch.Tensor:
        """Make room for one more token of each row and return the positions of these tokens."""
        layout = self.layout
        if not self._arranged:
            self._arrange()
        longest = max(layout.lengths)
        if longest >= self._texts[0].shape[3] or len(layout.owners) > self._texts[0].shape[1]:
            room = longest + max(LEAST, int(SHARE * longest))
            self._texts = [_with_room(kept, len(layout.owners), max(room, kept.shape[3])) for kept in self._texts]
        self._width = longest + 1
        self._even = min(layout.lengths) == longest
        if not self._even:
            place_T = torch.arange(self._width, device=self.device)
            self._hidden_B11T = (place_T > self._length_B[:, None])[:, None, None]
        position_B = self._start_B + self._length_B
        layout.lengths = [length + 1 for length in layout.lengths]
        self._length_B = self._length_B + 1
        return position_B

    def _arrange(self) -> None:
        layout = self.layout
        self._grid_width, places = layout.grid()
        full = len(layout.prompts) * self._grid_width
        heads = torch.arange(self._key_heads, device=self.device)
        # Index maps between (row, key head) and (place in the grid, key head), in both directions.
        row_PG = torch.zeros(full, dtype=torch.long)
        row_PG[torch.tensor(places)] = torch.arange(len(places))
        row_P1G = row_PG.to(self.device).reshape(-1, 1, self._grid_width)
        self._to_grid = (row_P1G * len(heads) + heads[:, None]).flatten()
        place_B1 = torch.tensor(places, device=self.device)[:, None]
        prompt_B1, rest_B1 = place_B1 // self._grid_width, place_B1 % self._grid_width
        self._to_rows = ((prompt_B1 * len(heads) + heads) * self._grid_width + rest_B1).flatten()
        self._length_B = torch.tensor(layout.lengths, device=self.device)
        self._start_B = torch.tensor([layout.prompts[owner] for owner in layout.owners], device=self.device)
        self._row_B = torch.arange(len(layout.owners), device=self.device)
        self._prompt_width = max(layout.prompts)
        self._blank_P11S = None
        if min(layout.prompts) < self._prompt_width:
            starts_P1 = torch.tensor(layout.prompts, device=self.device)[:, None]
            place_S = torch.arange(self._prompt_width, device=self.device)
            self._blank_P11S = (place_S >= starts_P1)[:, None, None]
        self._arranged = True

    def attend(self, layer: int, query_BHD: torch.Tensor, key_BKD: torch.Tensor, value_BKD: torch.Tensor) -> torch.Tensor:
        """Append a token of each row to `layer` and return the attention output `[B, H, D]`; see `llama_step.Attend`."""
        rows, key_heads, size = key_BKD.shape
        texts = self._texts[layer][:, :rows]
        if self._even:
            texts[0, :, :, self._width - 1], texts[1, :, :, self._width - 1] = key_BKD, value_BKD
        else:
            texts[0, self._row_B, :, self._length_B - 1] = key_BKD
            texts[1, self._row_B, :, self._length_B - 1] = value_BKD
        own_keys, own_values = texts[:, :, :, : self._width].flatten(1, 2)
        prompts = len(self.layout.prompts)
        keys, values = self._prompts[layer][:, :prompts, :, : self._prompt_width].flatten(1, 2)

        # From here N counts pairs of row and key head, so that what is multiplied together is contiguous.
        query_NRD = query_BHD.reshape(rows * key_heads, -1, size)
        group = _scores(self._by_prompt(query_NRD), keys, self.scale, self._blank_P11S, prompts)
        group_NRS = group.reshape(-1, *query_NRD.shape[1:-1], self._prompt_width)[self._to_rows]
        own_NRT = _scores(query_NRD, own_keys, self.scale, None if self._even else self._hidden_B11T, rows)
        weights = torch.cat([group_NRS, own_NRT], dim=-1).softmax(-1).to(value_BKD.dtype)
        group_NRS, own_NRT = torch.split(weights, [self._prompt_width, self._width], dim=-1)
        found = torch.bmm(self._by_prompt(group_NRS), values)
        found_NRD = found.reshape(-1, *query_NRD.shape[1:])[self._to_rows]
        return torch.baddbmm(found_NRD, own_NRT, own_values).reshape(query_BHD.shape)

    def _by_prompt(self, x_NRX: torch.Tensor) -> torch.Tensor:
        """Return the rows of `x_NRX` as `[P * K, G * R, X]`; a prompt with fewer than G rows is padded with arbitrary rows."""
        return x_NRX[self._to_grid].reshape(len(self.layout.prompts) * self._key_heads, -1, x_NRX.shape[-1])


def _scores(
    query_NMD: torch.Tensor, key_NLD: torch.Tensor, scale: float, hidden_X11L: torch.Tensor | None, outer: int
) -> torch.Tensor:
    """Return the attention scores `[N, M, L]`, in float32 or wider, -inf where hidden; N is `outer` (X) times heads."""
    keys = key_NLD.transpose(1, 2)
    if query_NMD.dtype.itemsize < 4:
        scores = torch.bmm(query_NMD, keys, out_dtype=torch.float32) * scale
    else:
        scores = torch.bmm(query_NMD * scale, keys)
    if hidden_X11L is not None:
        scores.view(outer, -1, *scores.shape[1:]).masked_fill_(hidden_X11L, -torch.inf)
    return scores


def _with_room(kept: torch.Tensor, count: int, width: int) -> torch.Tensor:
    """Return a buffer of at least `[2, count, K, width, D]` that begins with the contents of `kept`."""
    if kept.shape[1] >= count and kept.shape[3] >= width:
        return kept
    # Zeros, because masked values are still multiplied, and new memory may hold nan.
    larger = kept.new_zeros(2, max(count, kept.shape[1]), kept.shape[2], max(width, kept.shape[3]), kept.shape[4])
    larger[:, : kept.shape[1], :, : kept.shape[3]] = kept
    return larger


def _fill(states: Sequence[torch.Tensor], gap: int, *lists: list[int]) -> None:
    """Move the last entry of each of `states` and `lists` to the index `gap`."""
    last = len(lists[0]) - 1
    if gap != last:
        for kept in states:
            if last < kept.shape[1]:  # a row that has no token yet may have no slot either
                kept[:, gap] = kept[:, last]
    for values in lists:
        values[gap] = values[-1]
        values.pop()
