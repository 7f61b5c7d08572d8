"""Log-probabilities of completions under a model, each with its prompt before it, in micro-batches of a token budget.

Legend: B rows, T completion tokens (padded), L prompt + completion positions, N real completion tokens, H hidden size,
V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from verigym.envs.contract.errors import UsageError
from verigym.trainer.logprobs.chunked import Expected, Head, find_head, token_logprobs
from verigym.trainer.logprobs.entropy import token_entropy

logger = logging.getLogger("verigym.trainer")

PASS_TOKENS = {"cpu": 32, "cuda": 1024}
"""How many tokens one could compute in the time that a further micro-batch takes to start; worth a bit of padding."""


@dataclass(frozen=True)
class Forward:
    """How log-probabilities are computed. Nothing of it changes what they are, but for rounding."""

    pad_id: int
    """Any valid token id."""
    temperature: float = 1.0
    """Of the sampler; 0 is read as 1."""
    dtype: str = "fp32"
    """`fp32`, which stands for the dtype of the weights, or `bf16`."""
    token_budget: int = 8192
    """Most tokens, with their padding, whose activations are in memory at a time."""
    shared_prefix: bool = True
    """Whether a prompt that several rows share is run once, on models that allow it."""
    chunk: int | None = None
    """Tokens whose logits are in memory at a time; chosen by the vocabulary where None."""
    entropy: bool = False
    """Whether entropies are wanted."""


@dataclass(frozen=True)
class Scored:
    """What a model says of completions. Padding is 0, or False in the mask."""

    logp_BT: torch.Tensor
    """Log-probability of each token under the distribution sampled from, in nats."""
    entropy_BT: torch.Tensor
    """Entropy of that distribution, in nats; 0 where not asked for."""
    mask_BT: torch.Tensor


Expect = Callable[[torch.Tensor, torch.Tensor], Expected]
"""Says what gradient is going to arrive at the log-probabilities, see `logprobs.Expected`, for (zeros_BT, mask_BT)."""


def autocast(device: torch.device, dtype: str) -> AbstractContextManager[Any]:
    """Return the context of the forward pass: bf16 computes in bfloat16 over fp32 weights, fp32 changes nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if dtype == "bf16" else nullcontext()


def micro_batches(lengths: Sequence[int], token_budget: int, device: str = "cpu") -> Iterator[list[int]]:
    """Yield row numbers, longest rows first, so that rows times the longest row stays within the budget.

    Where to cut is chosen for the fewest tokens in all, padding included; each micro-batch counts `PASS_TOKENS` extra. A row
    longer than the budget gets a micro-batch of its own. Rows of zero length are left out.
    """
    order = sorted((row for row, length in enumerate(lengths) if length > 0), key=lambda row: (-lengths[row], row))
    # cost[i]: of the rows from the i-th on; cuts[i]: where the micro-batch that begins there ends.
    cost, cuts = [0] * (len(order) + 1), [0] * len(order)
    for start in reversed(range(len(order))):
        longest = lengths[order[start]]
        ends = range(start + 1, min(len(order), start + max(1, token_budget // longest)) + 1)
        cost[start], cuts[start] = min((longest * (end - start) + cost[end], -end) for end in ends)
        cost[start] += PASS_TOKENS.get(device, PASS_TOKENS["cuda"])
        cuts[start] = -cuts[start]
    start = 0
    while start < len(order):
        yield order[start : cuts[start]]
        start = cuts[start]


def completion_logprobs(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    dtype: str = "fp32",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (logp_BT, mask_BT) of one micro-batch; see `score_separately` and `Forward`."""
    scored = score_separately(model, prompts, completions, Forward(pad_id, temperature, dtype))
    return scored.logp_BT, scored.mask_BT


def score_separately(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    how: Forward,
    expect: Expect | None = None,
) -> Scored:
    """Return the log-probability of each completion token, every row with its own prompt.

    Rows are right-padded; padding comes after everything it could influence, so it needs no attention mask beyond
    the causal one. Only real completion tokens meet the vocabulary.

    Args:
        model: a transformers causal language model.
        prompts: B token sequences, none empty.
        completions: B token sequences, none empty.
        how: the numbers of it.
        expect: see `Expect`.
    """
    device = model.device
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    width = max(lengths) - 1
    rows = [[*p, *c, *[how.pad_id] * (width - n)][:width] for p, c, n in zip(prompts, completions, lengths, strict=True)]
    ids_BL = torch.tensor(rows, device=device)
    at = [row * width + len(p) - 1 + t for row, p in enumerate(prompts) for t in range(len(completions[row]))]
    at_N = torch.tensor(at, device=device)
    head = usable_head(model)
    with autocast(device, how.dtype):
        if head is not None:
            hidden = decoder(model)(input_ids=ids_BL, use_cache=False).last_hidden_state
        else:
            hidden = model(input_ids=ids_BL, use_cache=False).logits
    return score(hidden.flatten(0, 1)[at_N], head, completions, how, expect)


def score(
    hidden_NH: torch.Tensor,
    head: Head | torch.nn.Linear | None,
    completions: Sequence[Sequence[int]],
    how: Forward,
    expect: Expect | None,
) -> Scored:
    """Return what the hidden states before the N completion tokens say of them.

    Without a head they are logits already. With a critic's head, a layer of one output, what it says stands in `logp_BT`.
    """
    device = hidden_NH.device
    longest = max(map(len, completions))
    mask_BT = torch.tensor([[t < len(c) for t in range(longest)] for c in completions], device=device)
    if isinstance(head, torch.nn.Linear):
        value_N = head(hidden_NH.to(head.weight.dtype))[:, 0]
        blank_BT = torch.zeros(mask_BT.shape, device=device, dtype=value_N.dtype)
        return Scored(blank_BT.masked_scatter(mask_BT, value_N), blank_BT, mask_BT)
    tokens_N = torch.tensor([token for c in completions for token in c], device=device)
    real = torch.promote_types(hidden_NH.dtype if head is None else head.weight_VH.dtype, torch.float32)
    blank_BT = torch.zeros(mask_BT.shape, device=device, dtype=real)
    if head is None:
        logsoft_NV = torch.log_softmax(hidden_NH.to(real) / (how.temperature or 1), -1)
        logp_N = logsoft_NV.gather(1, tokens_N[:, None])[:, 0]
        entropy_N = token_entropy(logsoft_NV) if how.entropy else torch.zeros_like(logp_N)
    else:
        logp_N, entropy_N = token_logprobs(
            hidden_NH,
            head,
            tokens_N,
            temperature=how.temperature,
            chunk=how.chunk,
            dtype=torch.bfloat16 if how.dtype == "bf16" else None,
            entropy=how.entropy,
            expected=expect(blank_BT, mask_BT) if expect and torch.is_grad_enabled() else None,
        )
    return Scored(blank_BT.masked_scatter(mask_BT, logp_N), blank_BT.masked_scatter(mask_BT, entropy_N), mask_BT)


def decoder(model: Any) -> Any:
    """Return the part of a causal language model that ends in hidden states; adapters stay inside."""
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    return whole.base_model


_usable: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def usable_head(model: Any) -> Head | torch.nn.Linear | None:
    """Return the head by which hidden states give the model's own logits, None where there is none; a critic's is its own.

    Tried once a model, on a few tokens.
    """
    value_head: torch.nn.Linear | None = getattr(model, "value_head", None)
    if value_head is not None:
        return value_head
    head = find_head(model)
    if head is None:
        return None
    if model not in _usable:
        ids_BL = torch.arange(4, device=model.device)[None] % head.weight_VH.shape[0]
        with torch.no_grad(), evaluating(model):
            states = getattr(decoder(model)(input_ids=ids_BL, use_cache=False), "last_hidden_state", None)
            logits = model(input_ids=ids_BL, use_cache=False).logits[0].double().log_softmax(-1)
            _usable[model] = states is not None and states.shape[-1] == head.weight_VH.shape[1]
            if states is not None and _usable[model]:
                found_N, _ = token_logprobs(states[0], head, logits.argmin(-1))
                _usable[model] = bool(torch.allclose(found_N.double(), logits.amin(-1), rtol=1e-3, atol=1e-3))
        if not _usable[model]:
            logger.info("%s: its head is not known here, so the logits of a micro-batch are kept whole", type(model).__name__)
    return head if _usable[model] else None


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Turn dropout off for a trial."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def checkpointing(model: Any, on: bool) -> Iterator[None]:
    """Keep a layer's input alone and compute the layer again in the backward pass, where `on`.

    Dropout stays as it is: only the layers themselves, which decide about it, are told that this is training.

    Raises:
        UsageError: the model's layers cannot do it.
    """
    layers = [module for module in model.modules() if on and isinstance(module, GradientCheckpointingLayer)]
    if on and not layers:
        raise UsageError(f"gradient_checkpointing: the layers of {type(model).__name__} do not support it; leave it out")
    modes = [layer.training for layer in layers]
    try:
        for layer in layers:
            layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
            layer.gradient_checkpointing = layer.training = True
        yield
    finally:
        for layer, mode in zip(layers, modes, strict=True):
            layer.gradient_checkpointing, layer.training = False, mode
