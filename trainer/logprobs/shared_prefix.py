"""Shared prompts: one forward and backward pass of a prompt for all its completions.

The prompts run first. Their keys, values and last hidden states are copied into leaves, tensors that are cut off from the
autograd graph. Micro-batches of completions continue from the leaves, and their backward passes add up gradients in the leaves.
At the end, the gradients in the leaves are propagated through the prompts in one backward pass. Except for rounding, the result
is the same as if every row ran its own copy of the prompt.

Legend: P prompts, B rows (completions), T completion tokens (padded), S prompt tokens (padded), H hidden size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from verigym.trainer.logprobs.forward import (
    CompletionLogprobs,
    ExpectGradient,
    ForwardOptions,
    autocast,
    decoder,
    evaluating,
    logprobs_from_hidden,
    micro_batches,
    report_rows,
    row_logprobs,
    usable_head,
)
from verigym.trainer.models.kv_cache import call_with_cache

logger = logging.getLogger("verigym.trainer")

Pass = Callable[[ExpectGradient | None], CompletionLogprobs]
"""Function that runs the forward pass of a micro-batch. Its argument predicts the gradient (`ExpectGradient`), or is None."""

PROMPT_SHARE = 4
"""Prompts that run together have at most the token budget divided by this number. They get only a part of the budget, because
their activations stay in memory while their completions run."""

COPY_SHARE = 4
"""Each row has a copy of its prompt's keys and values in every layer. `COPY_SHARE` copied prompt tokens count as one token of
the budget. In measurements on Llamas of four shapes, a completion token kept 11 to 20 times as much memory for the backward
pass as a copied token. The number is lower than that, because micro-batches of several prompts, and the backward pass, hold
each copy twice for a while."""


class SharedPrefix:
    """The keys and values of prompts after their forward pass, from which the forward passes of completions continue."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], how: ForwardOptions) -> None:
        self.model, self.how, self.prompts = model, how, prompts
        longest = max(map(len, prompts))
        ids_PS = torch.tensor([[*prompt, *[how.pad_id] * (longest - len(prompt))] for prompt in prompts], device=model.device)
        with autocast(model.device, how.dtype):
            out, cache = call_with_cache(decoder(model), DynamicCache(), input_ids=ids_PS)
        layers = cache.layers
        last_PH = torch.stack([out.last_hidden_state[p, len(prompt) - 1] for p, prompt in enumerate(prompts)])
        self._graph = [last_PH, *(layer.keys for layer in layers), *(layer.values for layer in layers)]
        # Gradients of many rows add up in a leaf, so it has float32's precision even where its values have not.
        wide = [torch.promote_types(tensor.dtype, torch.float32) for tensor in self._graph]
        self._leaves = [tensor.detach().to(dtype) for tensor, dtype in zip(self._graph, wide, strict=True)]
        if torch.is_grad_enabled():
            # With adapters a state may depend on frozen weights alone: the first layer's keys, where only values are adapted.
            for leaf, tensor in zip(self._leaves, self._graph, strict=True):
                leaf.requires_grad_(tensor.requires_grad)

    def logprobs(
        self,
        owners: Sequence[int],
        completions: Sequence[Sequence[int]],
        expect: ExpectGradient | None = None,
    ) -> CompletionLogprobs:
        """Return the log-probabilities of completions.

        Args:
            owners: index of each row's prompt, ascending.
            completions: B token sequences, none empty.
            expect: see `ExpectGradient`.
        """
        device = self.model.device
        counts = [(p, len(list(rows))) for p, rows in groupby(owners)]
        last_BH, *states = [self._rows(leaf, like, counts) for leaf, like in zip(self._leaves, self._graph, strict=True)]
        hidden_BTH = last_BH[:, None]
        width = max(map(len, completions)) - 1
        if width > 0:  # the last token is only predicted
            rows = [[*c[:-1], *[self.how.pad_id] * (width - len(c) + 1)] for c in completions]
            starts_B1 = torch.tensor([[len(self.prompts[p])] for p in owners], device=device)
            with autocast(device, self.how.dtype):
                out, _ = call_with_cache(
                    decoder(self.model),
                    _cache(states),
                    input_ids=torch.tensor(rows, device=device),
                    attention_mask=_mask(starts_B1, states[0].shape[2], width),
                    position_ids=starts_B1 + torch.arange(width, device=device),
                )
            hidden_BTH = torch.cat([hidden_BTH, out.last_hidden_state], dim=1)
        at = [row * (width + 1) + t for row, completion in enumerate(completions) for t in range(len(completion))]
        hidden_NH = hidden_BTH.flatten(0, 1)[torch.tensor(at, device=device)]
        return logprobs_from_hidden(hidden_NH, usable_head(self.model), completions, self.how, expect)

    def _rows(self, leaf: torch.Tensor, like: torch.Tensor, counts: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Repeat each prompt's section of `leaf` for its rows; the backward pass sums the copies in a fixed order."""
        longest = max(len(self.prompts[p]) for p, _ in counts)
        leaf = leaf if leaf.ndim == 2 else leaf[:, :, :longest]
        parts = [leaf[p : p + 1].expand(count, *leaf.shape[1:]) for p, count in counts]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).to(like.dtype)

    def backward(self) -> None:
        """Propagate the gradients that the completions have left at the prompts' keys and values back through the prompts.

        Call this once, after the backward passes of all completions.
        """
        pairs = [(tensor, leaf.grad) for tensor, leaf in zip(self._graph, self._leaves, strict=True) if leaf.grad is not None]
        if pairs:
            torch.autograd.backward([tensor for tensor, _ in pairs], [grad.to(tensor.dtype) for tensor, grad in pairs])


def _mask(starts_B1: torch.Tensor, prompt_width: int, width: int) -> torch.Tensor | None:
    """Return 1 for positions to attend to, 0 for padding between a short prompt and its completion; None without padding."""
    if bool((starts_B1 == prompt_width).all()):
        return None
    place_L = torch.arange(prompt_width + width, device=starts_B1.device)
    return ((place_L < starts_B1) | (place_L >= prompt_width)).long()


def _cache(states: Sequence[torch.Tensor]) -> DynamicCache:
    cache = DynamicCache()
    half = len(states) // 2
    for keys, values in zip(states[:half], states[half:], strict=True):
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def micro_batch_passes(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    numbers: Sequence[int],
    how: ForwardOptions,
) -> Iterator[tuple[list[int], Pass]]:
    """Yield micro-batches as pairs (row numbers, function that runs the forward pass of these rows).

    The caller must run each function, and the backward pass if there is one, before taking the next pair.

    Args:
        model: a transformers causal language model.
        prompts: one prompt per row.
        completions: one completion per row.
        numbers: rows to run; rows without completion tokens are skipped.
        how: options of the forward pass.
    """
    done, of = 0, sum(bool(completions[number]) for number in numbers)
    for rows, run in _passes(model, prompts, completions, numbers, how):
        yield rows, run
        done += len(rows)
        report_rows(done, of)


def _passes(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    numbers: Sequence[int],
    how: ForwardOptions,
) -> Iterator[tuple[list[int], Pass]]:
    kind = model.device.type
    if not (how.shared_prefix and shareable(model)):
        chosen = frozenset(numbers)
        lengths = [
            len(p) + len(c) if n in chosen and c else 0 for n, (p, c) in enumerate(zip(prompts, completions, strict=True))
        ]
        for batch in micro_batches(lengths, how.token_budget, kind):
            pair = [prompts[n] for n in batch], [completions[n] for n in batch]
            yield batch, partial(row_logprobs, model, *pair, how)
        return
    rows_of: dict[tuple[int, ...], list[int]] = {}
    for number in numbers:
        if completions[number]:
            rows_of.setdefault(tuple(prompts[number]), []).append(number)
    unique = list(rows_of)
    for bundle in micro_batches([len(prompt) for prompt in unique], how.token_budget // PROMPT_SHARE, kind):
        prefix = SharedPrefix(model, [unique[p] for p in bundle], how)
        rows = [(owner, number) for owner, p in enumerate(bundle) for number in rows_of[unique[p]]]
        longest = max(len(unique[p]) for p in bundle)
        charges = [len(completions[number]) + copy_charge(longest) for _, number in rows]
        for batch in micro_batches(charges, how.token_budget - len(bundle) * longest, kind):
            owners, mine = zip(*(rows[i] for i in sorted(batch)), strict=True)
            texts = [completions[number] for number in mine]
            yield list(mine), partial(prefix.logprobs, owners, texts)
        prefix.backward()


def copy_charge(prompt_tokens: int) -> int:
    """Return how many tokens of the token budget a row needs for its copy of the prompt's keys and values; see `COPY_SHARE`."""
    return -(-prompt_tokens // COPY_SHARE)


_shareable: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def shareable(model: Any) -> bool:
    """Return True if `model` gives the same log-probabilities with a shared prompt; checked once per model, on a few tokens.

    The result is False for models with sliding windows, with recurrent layers, or with attention that takes no custom mask.
    """
    if model not in _shareable:
        reason = _obstacle(model)
        if reason:
            logger.info("%s: prompts are not shared between completions: %s", type(model).__name__, reason)
        _shareable[model] = not reason
    return _shareable[model]


def _obstacle(model: Any) -> str:
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    if kinds - {DynamicLayer}:
        return f"its layers keep {', '.join(sorted(kind.__name__ for kind in kinds))}"
    if model.config._attn_implementation not in ("sdpa", "eager"):
        return f"its attention is {model.config._attn_implementation}"
    head = usable_head(model)
    if head is None:
        return "its head is not known here"
    prompts, completions = [[0, 1, 2], [3, 1]], [[1, 2, 0], [3, 0], [2, 1, 3]]
    owners, how = [0, 0, 1], ForwardOptions(pad_id=0)
    with torch.no_grad(), evaluating(model):
        alone = row_logprobs(model, [prompts[p] for p in owners], completions, how).logp_BT
        try:
            shared = SharedPrefix(model, prompts, how).logprobs(owners, completions).logp_BT
        except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "" if torch.allclose(shared, alone, rtol=1e-3, atol=1e-3) else "its log-probabilities would be others"
