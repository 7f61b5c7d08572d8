"""Batched decoders whose rows can join and leave.

Legend: P prompts, B rows, N new rows, S prompt tokens (padded), E hidden size, V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from transformers.cache_utils import DynamicCache

from verigym.trainer.engines.native import cuda_graphs
from verigym.trainer.engines.native.cuda_graphs import CapturedGraphs, Record
from verigym.trainer.engines.native.growing_cache import grow_in_place
from verigym.trainer.engines.native.llama_step import LlamaStep, unknown_parts
from verigym.trainer.engines.native.prefix_cache import PrefixCache
from verigym.trainer.engines.native.static_cache import StaticCache
from verigym.trainer.engines.native.turn_cache import RowStates, go_on
from verigym.trainer.logprobs.forward import decoder, evaluating
from verigym.trainer.models.kv_cache import call_with_cache

logger = logging.getLogger("verigym.trainer")

NewRow = tuple[int, Sequence[int]]
"""Prompt index and prompt tokens."""

PREFILL_TOKENS = 16384
"""Most tokens of prompts that run together, padding included; more would take memory and save no time."""

NOTHING: Mapping[int, RowStates] = {}

# Removing rows copies the cache; below this share of finished rows, the copy costs more than decoding them.
COMPACT_AT = 0.125
# With shorter completions, rows leave at nearly every token, and the cache is copied anyway.
LONG = 128


class Decoder(Protocol):
    """Interface of the decoders, which generate a batch of rows one token at a time. Rows are numbered from 0."""

    refills: bool
    """Whether rows may join while others are being decoded."""

    token_bytes: int
    """Bytes of a token's states; 0 where `states` is not known."""

    def add(self, rows: Sequence[NewRow], begun: Mapping[int, RowStates] = NOTHING) -> torch.Tensor:
        """Append rows and return the logits `[N, V]` from which their first tokens are sampled.

        Args:
            rows: for each new row, the number and the tokens of its prompt. The caller chooses the numbers. A number may be
                given to another prompt only after all rows of its first prompt have been removed.
            begun: for prompts whose first tokens have been run before, their keys and values, as `states` returned them, by the
                prompt's number. Each of these prompts may have only one row.
        """

    def states(self, row: int) -> RowStates:
        """Return a copy of the keys and values of the prompt and tokens of the row numbered `row`."""

    def reach(self, positions: int) -> None:
        """Prepare for rows of up to `positions` tokens, prompt included.

        A smaller number than was already prepared for has no effect.
        """

    def step(self, token_B: torch.Tensor) -> torch.Tensor:
        """Append the tokens `token_B`, one per row, and return the logits of the next tokens `[B, V]`."""

    def remove(self, rows: Sequence[int]) -> list[int]:
        """Remove `rows` and renumber the rest; return, for each new number, the row's former number.

        A decoder may keep removed rows in the batch for a while. Such rows get new numbers like the others, so the result also
        contains their former numbers.
        """


class _LlamaDecoder:
    """Base of the decoders that run each prompt once, for the models that `llama_step` supports."""

    refills = True
    cache: PrefixCache | StaticCache

    def __init__(self, model: Any, positions: int, pad_id: int) -> None:
        self.model, self.pad_id = model, pad_id
        self.step_model = parts = LlamaStep(model, positions)
        self.sizes = (len(parts.layers), parts.key_heads, parts.head_size)
        self.token_bytes = 2 * len(parts.layers) * parts.key_heads * parts.head_size * parts.dtype.itemsize

    def add(self, rows: Sequence[NewRow], begun: Mapping[int, RowStates] = NOTHING) -> torch.Tensor:
        """See `Decoder`."""
        there = set(self.cache.layout.names)
        last: dict[int, torch.Tensor] = {}
        new = {number: ids for number, ids in rows if number not in there and number not in begun}
        repeated = {number: ids for number, ids in rows if number in there}
        for bundle in _bundles(new):
            last.update(self._prefill(bundle, keep=True))
        for bundle in _bundles(repeated):
            last.update(self._prefill(bundle, keep=False))
        for bundle in _bundles({number: ids for number, ids in rows if number in begun}):
            hidden_PE, states = go_on(self.step_model, bundle, begun)
            self.cache.add_prompts(list(bundle), [(pair[0], pair[1]) for pair in states], [len(ids) for ids in bundle.values()])
            last.update(zip(bundle, hidden_PE, strict=True))
        self.cache.add_rows([number for number, _ in rows])
        return self.step_model.head(torch.stack([last[number] for number, _ in rows]))

    def _prefill(self, prompts: dict[int, Sequence[int]], *, keep: bool) -> dict[int, torch.Tensor]:
        """Run prompts, padded on the right, and return the last hidden state of each, by the prompt's number."""
        longest, device = max(map(len, prompts.values())), self.cache.device
        ids_PS = torch.tensor([[*ids, *[self.pad_id] * (longest - len(ids))] for ids in prompts.values()], device=device)
        out, cache = call_with_cache(decoder(self.model), DynamicCache(), input_ids=ids_PS)
        if keep:
            states = [(layer.keys, layer.values) for layer in cache.layers]
            self.cache.add_prompts(list(prompts), states, [len(ids) for ids in prompts.values()])
        return {number: out.last_hidden_state[p, len(ids) - 1] for p, (number, ids) in enumerate(prompts.items())}

    def states(self, row: int) -> RowStates:
        """See `Decoder`."""
        return self.cache.states(row)

    def reach(self, positions: int) -> None:
        """See `Decoder`."""
        self.step_model.reach(positions)

    def remove(self, rows: Sequence[int]) -> list[int]:
        """See `Decoder`."""
        order = list(range(len(self.cache.layout.owners)))
        for row in sorted(rows, reverse=True):
            self.cache.remove(row)
            order[row] = order[-1]
            order.pop()
        return order


class SharedDecoder(_LlamaDecoder):
    """A decoder that stores the keys and values of a prompt once for all its rows."""

    cache: PrefixCache

    def __init__(self, model: Any, positions: int, pad_id: int) -> None:
        """Start without rows.

        Args:
            model: a model for which `decodable` is true; its weights must not change while this decoder is in use.
            positions: most tokens of a prompt and its completion.
            pad_id: any valid token id.
        """
        super().__init__(model, positions, pad_id)
        parts = self.step_model
        self.cache = PrefixCache(*self.sizes, parts.scale, parts.dtype, parts.cos_LD.device)

    def reach(self, positions: int) -> None:
        """See `Decoder`."""
        super().reach(positions)
        self.cache.joined = True

    def step(self, token_B: torch.Tensor) -> torch.Tensor:
        """See `Decoder`."""
        position_B = self.cache.begin()
        return self.step_model(token_B, position_B, self.cache.attend)


class StaticDecoder(_LlamaDecoder):
    """A decoder with buffers of a fixed size and few distinct shapes of steps, so that CUDA graphs can replay them."""

    cache: StaticCache

    def __init__(self, model: Any, positions: int, pad_id: int, rows: int, record: Record | None = None) -> None:
        """Start without rows; see `SharedDecoder`.

        Args:
            model: see `SharedDecoder`.
            positions: see `SharedDecoder`.
            pad_id: see `SharedDecoder`.
            rows: most rows at the same time.
            record: see `cuda_graphs.CapturedGraphs`.
        """
        super().__init__(model, positions, pad_id)
        parts, device = self.step_model, self.step_model.cos_LD.device
        self.cache = StaticCache(*self.sizes, parts.scale, parts.dtype, device, rows=rows, positions=positions)
        self.graphs = CapturedGraphs(record)

    def step(self, token_B: torch.Tensor) -> torch.Tensor:
        """See `Decoder`."""
        rows, width = self.cache.begin(token_B)
        logits_BV = self.graphs((rows, width), partial(self._run, rows, width))
        self.cache.end()
        return logits_BV[: len(token_B)].clone()

    def _run(self, rows: int, width: int) -> torch.Tensor:
        cache = self.cache
        return self.step_model(cache.token_B[:rows], cache.length_B[:rows], cache.attention(rows, width))


def _bundles(prompts: dict[int, Sequence[int]]) -> list[dict[int, Sequence[int]]]:
    """Split `prompts`, in order, into groups of at most `PREFILL_TOKENS` tokens."""
    parts: list[dict[int, Sequence[int]]] = []
    longest = 0
    for number, ids in prompts.items():
        longest = max(longest, len(ids))
        if not parts or longest * (len(parts[-1]) + 1) > PREFILL_TOKENS:
            parts.append({})
            longest = len(ids)
        parts[-1][number] = ids
    return parts


class PlainDecoder:
    """A decoder for any model, which runs the model's own modules with transformers' cache.

    The keys and values of a prompt are copied to each of its rows.
    """

    refills = False
    token_bytes = 0

    def __init__(self, model: Any, pad_id: int, max_new_tokens: int) -> None:
        self.model, self.pad_id, self.max_new_tokens = model, pad_id, max_new_tokens
        self.dead: set[int] = set()
        self.count = 0

    def add(self, rows: Sequence[NewRow], begun: Mapping[int, RowStates] = NOTHING) -> torch.Tensor:
        """Append rows and return the logits `[N, V]` of their first tokens, as `Decoder.add` does.

        `begun` has no effect: prompts are run from their first tokens.
        """
        device = self.model.device
        prompts = dict(rows)
        width = max(map(len, prompts.values()))
        ids_PS = torch.tensor([[self.pad_id] * (width - len(ids)) + list(ids) for ids in prompts.values()], device=device)
        mask_PS = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts.values()], device=device)
        places = {number: place for place, number in enumerate(prompts)}
        owner_B = torch.tensor([places[number] for number, _ in rows], device=device)
        out, self.cache = call_with_cache(
            self.model,
            input_ids=ids_PS,
            attention_mask=mask_PS,
            position_ids=(mask_PS.cumsum(1) - 1).clamp(min=0),
            logits_to_keep=1,
        )
        if not torch.equal(owner_B, torch.arange(len(prompts), device=device)):
            self.cache.batch_select_indices(owner_B)
        if self.max_new_tokens >= LONG:
            grow_in_place(self.cache, self.max_new_tokens)
        self.mask_BL = mask_PS[owner_B]
        self.position_B = self.mask_BL.sum(1)
        self.dead, self.count = set(), len(rows)
        logits: torch.Tensor = out.logits[:, -1][owner_B]
        return logits

    def step(self, token_B: torch.Tensor) -> torch.Tensor:
        """See `Decoder`."""
        self.mask_BL = torch.cat([self.mask_BL, self.mask_BL.new_ones(len(token_B), 1)], dim=1)
        out, self.cache = call_with_cache(
            self.model,
            self.cache,
            input_ids=token_B[:, None],
            attention_mask=self.mask_BL,
            position_ids=self.position_B[:, None],
            logits_to_keep=1,
        )
        self.position_B = self.position_B + 1
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def states(self, row: int) -> RowStates:
        """Return an empty tuple: keys and values are not available, because the contents of the cache differ by model."""
        return ()

    def reach(self, positions: int) -> None:
        """Do nothing: the model's modules handle positions themselves."""

    def remove(self, rows: Sequence[int]) -> list[int]:
        """See `Decoder`."""
        self.dead.update(rows)
        if len(self.dead) < self.count and len(self.dead) < self.count * COMPACT_AT:
            return list(range(self.count))
        order = [row for row in range(self.count) if row not in self.dead]
        self.dead, self.count = set(), len(order)
        if order:
            keep_B = torch.tensor(order, device=self.model.device)
            self.cache.batch_select_indices(keep_B)
            self.mask_BL, self.position_B = self.mask_BL[keep_B], self.position_B[keep_B]
        return order


def build_decoder(model: Any, positions: int, max_new_tokens: int, pad_id: int, static_rows: int | None = None) -> Decoder:
    """Return the fastest decoder that supports the model.

    Args:
        model: a transformers causal language model.
        positions: most tokens of a prompt and its completion.
        max_new_tokens: most tokens of a completion.
        pad_id: any valid token id.
        static_rows: most rows at the same time, for buffers of a fixed size (on CUDA, with graphs); None for growing buffers.
    """
    if not decodable(model):
        return PlainDecoder(model, pad_id, max_new_tokens)
    if static_rows is None:
        return SharedDecoder(model, positions, pad_id)
    return StaticDecoder(
        model, positions, pad_id, static_rows, cuda_graphs.cuda_record() if model.device.type == "cuda" else None
    )


_decodable: WeakKeyDictionary[Any, dict[torch.dtype | None, bool]] = WeakKeyDictionary()


def decodable(model: Any) -> bool:
    """Return True if `SharedDecoder` computes the same logits as `model` itself.

    This is checked once per model and autocast dtype, on a few tokens.
    """
    kind = model.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    known = _decodable.setdefault(model, {})
    if dtype not in known:
        reason = _obstacle(model)
        if reason:
            logger.info("%s: each completion is decoded with its own copy of the prompt: %s", type(model).__name__, reason)
        known[dtype] = not reason
    return known[dtype]


STRICT, LOOSE = 1e-3, 5e-2
"""Two decoders count as equal if their log-probabilities differ by no more than this, as a relative and an absolute tolerance.
`STRICT` is for float32, `LOOSE` for half precision."""


def _obstacle(model: Any) -> str:
    """Return the reason why `model` must be decoded by its own modules; an empty string if there is none.

    Under autocast, the layers are first compared in float32, because half precision would hide many differences.
    """
    unknown = unknown_parts(model)
    if unknown:
        return unknown
    kind, wide = model.device.type, model.get_input_embeddings().weight.dtype.itemsize >= 4
    with torch.autocast(kind, enabled=False):
        reason = _difference(model, STRICT if wide else LOOSE)
    return _difference(model, LOOSE) if not reason and torch.is_autocast_enabled(kind) else reason


def _difference(model: Any, tolerance: float) -> str:
    rows = [(0, [0, 1, 2]), (0, [0, 1, 2]), (1, [3, 1])]
    with torch.no_grad(), evaluating(model):
        try:
            tried = [_trial(SharedDecoder(model, 8, 0), rows), _trial(PlainDecoder(model, 0, 4), rows)]
        except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    shared, plain = tried
    near = torch.allclose(shared.double(), plain.double(), rtol=tolerance, atol=tolerance)
    return "" if near else "its log-probabilities would be others"


def _trial(tried: Decoder, rows: Sequence[NewRow]) -> torch.Tensor:
    logits = [tried.add(rows)]
    for token in (1, 2):
        token_B = torch.tensor([token, token + 1, token], device=logits[0].device)
        logits.append(tried.step(token_B))
    return torch.cat(logits).log_softmax(-1)
