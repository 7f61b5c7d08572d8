"""Computes log-probabilities of completions under a model, each row with its own prompt, in micro-batches of a token budget.

Legend: B rows, T completion tokens (padded), L prompt + completion positions, N real completion tokens, H hidden size,
V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from verigym.envs.contract.errors import UsageError
from verigym.trainer.logprobs.chunked import ExpectedGradient, Head, find_head, token_entropy, token_logprobs

logger = logging.getLogger("verigym.trainer")

PASS_TOKENS = {"cpu": 32, "cuda": 1024}
"""Overhead of one more micro-batch, by type of device: the number of tokens whose computation takes as long. A further
micro-batch is made only if it saves more padding tokens than this."""


@dataclass(frozen=True)
class ForwardOptions:
    """Options of the forward pass. Except for `temperature`, they change results by rounding only."""

    pad_id: int
    """Any valid token id."""
    temperature: float = 1.0
    """Temperature of the sampler; 0 counts as 1."""
    dtype: str = "fp32"
    """`fp32` computes in the dtype of the weights, `bf16` under autocast to bfloat16."""
    token_budget: int = 8192
    """Most tokens, padding included, whose activations are in memory at the same time."""
    shared_prefix: bool = True
    """Whether a prompt that several rows share is run once, for models that support it."""
    chunk: int | None = None
    """Number of tokens whose logits are in memory at the same time; None chooses by the vocabulary's size."""
    entropy: bool = False
    """Whether to compute entropies."""


@dataclass(frozen=True)
class CompletionLogprobs:
    """Log-probabilities and entropies of each token. They are 0 at padding, where the mask is False."""

    logp_BT: torch.Tensor
    """Log-probability of each token at the sampler's temperature, in nats."""
    entropy_BT: torch.Tensor
    """Entropy of each token's distribution, in nats; 0 unless computed."""
    mask_BT: torch.Tensor


ExpectGradient = Callable[[torch.Tensor, torch.Tensor], ExpectedGradient]
"""Function that predicts a gradient before the log-probabilities are known. It takes a tensor of zeros with their shape and
dtype, and the mask of real tokens, both [B, T]. It returns the `ExpectedGradient` of the real tokens."""


def autocast(device: torch.device, dtype: str) -> AbstractContextManager[Any]:
    """Return the autocast context of the forward pass: bfloat16 for `bf16`, no autocast for `fp32`."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if dtype == "bf16" else nullcontext()


OnRows = Callable[[int, int], None]
"""Called between micro-batches with (rows that were run, all rows to run). It may raise to stop."""

_on_rows: ContextVar[OnRows | None] = ContextVar("on_rows", default=None)


@contextmanager
def rows_reported(to: OnRows) -> Iterator[None]:
    """Return a context in which `to` is called between the micro-batches of forward and backward passes."""
    token = _on_rows.set(to)
    try:
        yield
    finally:
        _on_rows.reset(token)


def report_rows(done: int, of: int) -> None:
    """Call the function of `rows_reported`, if there is one."""
    to = _on_rows.get()
    if to is not None:
        to(done, of)


def micro_batches(lengths: Sequence[int], token_budget: int, device: str = "cpu") -> Iterator[list[int]]:
    """Yield micro-batches as lists of row numbers, longest rows first.

    In a micro-batch, the number of rows times the longest length is at most `token_budget`. Among all such divisions of the
    rows, the one of least cost is chosen. The cost is the number of all tokens, padding included, plus `PASS_TOKENS` for each
    micro-batch. A row longer than the budget gets a micro-batch of its own. Rows of zero length are left out.
    """
    order = sorted((row for row, length in enumerate(lengths) if length > 0), key=lambda row: (-lengths[row], row))
    # cost[i]: tokens of the rows from the i-th on; cuts[i]: end of the micro-batch that begins at the i-th row.
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
    """Return (logp_BT, mask_BT) of one micro-batch; see `row_logprobs` and `ForwardOptions`."""
    scored = row_logprobs(model, prompts, completions, ForwardOptions(pad_id, temperature, dtype))
    return scored.logp_BT, scored.mask_BT


def row_logprobs(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    how: ForwardOptions,
    expect: ExpectGradient | None = None,
) -> CompletionLogprobs:
    """Return the log-probabilities of completions. Each row's prompt is run again, even if rows share it.

    Rows are padded on the right, where the causal mask hides the padding. Logits are computed for real completion tokens
    only.

    Args:
        model: a transformers causal language model.
        prompts: B token sequences, none empty.
        completions: B token sequences, none empty.
        how: options of the forward pass.
        expect: see `ExpectGradient`.
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
    return logprobs_from_hidden(hidden.flatten(0, 1)[at_N], head, completions, how, expect)


def logprobs_from_hidden(
    hidden_NH: torch.Tensor,
    head: Head | torch.nn.Linear | None,
    completions: Sequence[Sequence[int]],
    how: ForwardOptions,
    expect: ExpectGradient | None,
) -> CompletionLogprobs:
    """Return the log-probabilities of B completions from the hidden states before their N tokens.

    Args:
        hidden_NH: hidden states, row by row; logits if `head` is None.
        head: from `usable_head`. With a critic's head, a linear layer with one output, the field `logp_BT` of the result holds
            values.
        completions: B token sequences, N tokens in all.
        how: options of the forward pass.
        expect: see `ExpectGradient`.
    """
    device = hidden_NH.device
    longest = max(map(len, completions))
    mask_BT = torch.tensor([[t < len(c) for t in range(longest)] for c in completions], device=device)
    if isinstance(head, torch.nn.Linear):
        value_N = head(hidden_NH.to(head.weight.dtype))[:, 0]
        blank_BT = torch.zeros(mask_BT.shape, device=device, dtype=value_N.dtype)
        return CompletionLogprobs(blank_BT.masked_scatter(mask_BT, value_N), blank_BT, mask_BT)
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
    return CompletionLogprobs(blank_BT.masked_scatter(mask_BT, logp_N), blank_BT.masked_scatter(mask_BT, entropy_N), mask_BT)


def decoder(model: Any) -> Any:
    """Return the part of the causal language model `model` before the output head, with any adapters."""
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    return whole.base_model


_usable: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def usable_head(model: Any) -> Head | torch.nn.Linear | None:
    """Return the output head of `model` if it reproduces the model's logits from hidden states, else None.

    For a critic, return its value head. The check runs once per model, on a few tokens.
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
    """Put `model` into evaluation mode, without dropout, within this context."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def checkpointing(model: Any, on: bool) -> Iterator[None]:
    """Return a context that uses gradient checkpointing if `on` is True: layers are computed again in the backward pass.

    Layers do checkpointing only in training mode. So the layers themselves are put into this mode, but not the modules inside
    them, and dropout stays on or off as it was.

    Raises:
        UsageError: the model's layers do not support gradient checkpointing.
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
