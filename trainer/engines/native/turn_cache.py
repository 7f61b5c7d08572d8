"""Keeps the keys and values of episodes between turns, so that a turn computes only its new tokens.

If there is no room for the keys and values of a row, they are computed again in its next turn, in another batch, and then
differ in their last bits. To make results reproducible, which rows are kept must not depend on timing. Rows are kept in the
order in which they end, as long as there is room, and no longer than one rollout. In lockstep, this order depends only on the
sampled tokens.

Legend: P rows, M new tokens of all rows, N most new tokens of a row, K key heads, H query heads, R query heads of a key head,
L positions, D head size, E hidden size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from verigym.trainer.engines.native.llama_step import LlamaStep

logger = logging.getLogger("verigym.trainer")

RowStates = Sequence[torch.Tensor]
"""A row's keys and values: of each layer `[2, K, L, D]`."""


class TurnCache:
    """Cache of the keys and values of unfinished episodes, for their next turns; its size in bytes is limited."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self.refused = 0
        """Times that there was no room for a row."""
        self._kept: dict[Hashable, tuple[tuple[int, ...], RowStates]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, episode: Hashable, ids: tuple[int, ...], size: int, states: Callable[[], RowStates]) -> None:
        """Store the keys and values of an episode's tokens if there is room.

        Args:
            episode: identifies the episode.
            ids: the episode's tokens, prompt included.
            size: bytes of the keys and values.
            states: returns the keys and values; called only if there is room.
        """
        self.forget([episode])
        if self.bytes + size <= self.most_bytes:
            self._kept[episode] = ids, states()
            self.bytes += size
        else:
            if not self.refused and self.most_bytes:
                logger.warning(
                    "episode_cache_mb: %g MiB do not hold the keys and values of all episodes; the turns of the others are "
                    "computed from the first token",
                    self.most_bytes / 2**20,
                )
            self.refused += 1

    def take(self, episode: Hashable, prompt: Sequence[int]) -> RowStates | None:
        """Remove the keys and values of `episode` from the cache and return them.

        Return None if the cache has none, or if their tokens are not the beginning of `prompt`.
        """
        ids, states = self._kept.get(episode, ((), ()))
        self.forget([episode])
        return states if 0 < len(ids) < len(prompt) and tuple(prompt[: len(ids)]) == ids else None

    def forget(self, episodes: Iterable[Hashable]) -> None:
        """Drop the keys and values of `episodes`."""
        for episode in episodes:
            _, states = self._kept.pop(episode, ((), ()))
            self.bytes -= sum(layer.nbytes for layer in states)

    def clear(self) -> None:
        """Drop all keys and values."""
        self._kept.clear()
        self.bytes = 0


def go_on(
    step_model: LlamaStep, prompts: Mapping[int, Sequence[int]], begun: Mapping[int, RowStates]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Run the model over the last tokens of some prompts: the tokens that have no keys and values from earlier turns.

    Args:
        step_model: the model.
        prompts: P token sequences by number, each longer than its states in `begun`.
        begun: the keys and values of each prompt's beginning, by the same numbers.

    Returns:
        The last hidden state of each prompt `[P, E]`, and the keys and values of the full prompts: for each layer
        `[2, P, K, L, D]`, where positions after a prompt's length are undefined.
    """
    kept = [begun[number] for number in prompts]
    starts = [states[0].shape[2] for states in kept]
    fresh = [ids[start:] for ids, start in zip(prompts.values(), starts, strict=True)]
    device, most = kept[0][0].device, max(map(len, fresh))
    layers, (_, key_heads, _, size) = len(kept[0]), kept[0][0].shape
    whole = [
        # Zeros, because masked values are still multiplied, and new memory may hold nan.
        torch.zeros(2, len(kept), key_heads, max(map(len, prompts.values())), size, dtype=kept[0][0].dtype, device=device)
        for _ in range(layers)
    ]
    for layer, states in enumerate(whole):
        for number, start in enumerate(starts):
            states[:, number, :, :start] = kept[number][layer]

    token_M = torch.tensor([token for ids in fresh for token in ids], device=device)
    row_M = torch.tensor([number for number, ids in enumerate(fresh) for _ in ids], device=device)
    rank_M = torch.tensor([rank for ids in fresh for rank in range(len(ids))], device=device)
    start_P = torch.tensor(starts, device=device)
    place_M = start_P[row_M] + rank_M
    last_PN = start_P[:, None] + torch.arange(most, device=device)
    place_L = torch.arange(whole[0].shape[3], device=device)
    seen_PNL = place_L <= last_PN[:, :, None]
    groups = step_model.heads // key_heads
    # The query heads of a key head take the axis of the sequence: all of them see the same positions.
    seen_P1XL = seen_PNL[:, None].repeat(1, 1, groups, 1)

    def attend(layer: int, query_MHD: torch.Tensor, key_MKD: torch.Tensor, value_MKD: torch.Tensor) -> torch.Tensor:
        keys_PKLD, values_PKLD = whole[layer]
        keys_PKLD[row_M, :, place_M] = key_MKD
        values_PKLD[row_M, :, place_M] = value_MKD.to(values_PKLD.dtype)
        query_PNHD = query_MHD.new_zeros(len(kept), most, *query_MHD.shape[1:])
        query_PNHD[row_M, rank_M] = query_MHD
        query_PKXD = query_PNHD.transpose(1, 2).reshape(len(kept), key_heads, groups * most, size)
        found_PKXD = scaled_dot_product_attention(
            query_PKXD, keys_PKLD, values_PKLD, attn_mask=seen_P1XL, scale=step_model.scale
        )
        return found_PKXD.reshape(len(kept), -1, most, size)[row_M, :, rank_M]

    hidden_ME = step_model.hidden(token_M, place_M, attend)
    ends = torch.tensor([len(ids) for ids in fresh], device=device).cumsum(0) - 1
    return hidden_ME[ends], whole
