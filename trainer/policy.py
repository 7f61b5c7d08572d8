"""Log-probabilities of completions under a model, in micro-batches bounded by a token budget.

Legend: B rows, T completion tokens (padded), L prompt + completion positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def autocast(device: torch.device, dtype: str) -> AbstractContextManager[Any]:
    """Return the context of the forward pass: bf16 computes in bfloat16 over fp32 weights, fp32 changes nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if dtype == "bf16" else nullcontext()


def micro_batches(lengths: Sequence[int], token_budget: int) -> Iterator[list[int]]:
    """Yield row numbers, longest rows first, so that rows times the longest row stays within the budget.

    A row longer than the budget gets a micro-batch of its own. Rows of zero length are left out.
    """
    order = sorted((row for row, length in enumerate(lengths) if length > 0), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        size = max(1, token_budget // lengths[order[start]])
        yield order[start : start + size]
        start += size


def completion_logprobs(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    dtype: str = "fp32",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (logp_BT, mask_BT): the log-probability of each completion token under the distribution sampled from.

    Rows are right-padded; padding comes after everything it could influence, so it needs no attention mask beyond
    the causal one. Logits are taken only from the first completion position of any row on.

    Args:
        model: a transformers causal language model.
        prompts: B token sequences, none empty.
        completions: B token sequences, none empty.
        temperature: of the sampler; 0 is read as 1.
        pad_id: any valid token id.
        dtype: "fp32" or "bf16".
    """
    device = model.device
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    width = max(lengths)
    first = min(map(len, prompts)) - 1
    rows = [[*p, *c, *[pad_id] * (width - n)] for p, c, n in zip(prompts, completions, lengths, strict=True)]
    ids_BL = torch.tensor(rows, device=device)
    with autocast(device, dtype):
        logits = model(input_ids=ids_BL[:, :-1], use_cache=False, logits_to_keep=width - 1 - first).logits
    logits = logits.float()
    if temperature not in (0, 1):  # dividing copies the largest tensor there is
        logits = logits / temperature
    logp_BL = logits.gather(-1, ids_BL[:, first + 1 :, None])[..., 0] - logits.logsumexp(-1)
    longest = max(map(len, completions))
    at_BT = torch.tensor([[len(p) - 1 - first + t for t in range(longest)] for p in prompts], device=device)
    mask_BT = torch.tensor([[t < len(c) for t in range(longest)] for c in completions], device=device)
    logp_BT = logp_BL.gather(1, at_BT.clamp(max=logp_BL.shape[1] - 1))
    return torch.where(mask_BT, logp_BT, 0.0), mask_BT
