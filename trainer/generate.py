"""Native generation: one prefill a prompt, its KV cache cloned to the group, finished rows compacted away.

Legend: P prompts, G samples a prompt, B = P*G rows, L positions so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from verigym.trainer.kvcache import give_room
from verigym.trainer.rng import keyed_uniforms

# Compacting copies the cache; below this share of finished rows the copy costs more than the rows do.
COMPACT_AT = 0.125
# Where completions are short, rows leave at nearly every token, and each time the cache is copied anyway.
LONG = 128


@dataclass(frozen=True)
class Generated:
    """One sampled completion, its end-of-sequence token included where it was sampled."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Log-probability of each token under the distribution it was drawn from; greedy decoding reports temperature 1."""
    finish_reason: Literal["stop", "length"]


@torch.no_grad()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    row_keys: Sequence[Sequence[tuple[object, ...]]],
    *,
    max_new_tokens: int,
    temperature: float,
    eos_ids: frozenset[int],
    pad_id: int,
    on_finished: Callable[[int, int, Generated], None] | None = None,
) -> list[list[Generated]]:
    """Sample completions.

    Args:
        model: a transformers causal language model.
        prompts: P token sequences of any lengths.
        row_keys: for each prompt, one randomness key a sample: what a row draws depends on its key alone.
        max_new_tokens: most tokens a completion.
        temperature: 0 takes the most likely token.
        eos_ids: tokens that end a completion.
        pad_id: any valid token id.
        on_finished: called with (prompt index, sample index, completion) as soon as a row ends, so that grading can
            start while other rows go on.

    Returns:
        For each prompt its completions, in the order of its keys.
    """
    device = model.device
    rows = [(p, g) for p, keys in enumerate(row_keys) for g in range(len(keys))]
    done: dict[tuple[int, int], Generated] = {}
    uniforms_BT = (
        torch.stack([keyed_uniforms(max_new_tokens, *row_keys[p][g]) for p, g in rows]).to(device) if temperature > 0 else None
    )

    width = max(map(len, prompts))
    input_PL = torch.tensor([[pad_id] * (width - len(ids)) + list(ids) for ids in prompts], device=device)
    mask_PL = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts], device=device)
    out = model(
        input_ids=input_PL,
        attention_mask=mask_PL,
        position_ids=(mask_PL.cumsum(1) - 1).clamp(min=0),
        use_cache=True,
        logits_to_keep=1,
    )
    cache = out.past_key_values
    row_prompt_B = torch.tensor([p for p, _ in rows], device=device)
    if not torch.equal(row_prompt_B, torch.arange(len(prompts), device=device)):
        cache.batch_select_indices(row_prompt_B)
    if max_new_tokens >= LONG:
        give_room(cache, max_new_tokens)
    logits_BV = out.logits[:, -1][row_prompt_B]
    mask_BL = mask_PL[row_prompt_B]
    position_B = mask_BL.sum(1)
    live = list(range(len(rows)))  # row numbers, in the order of the batch's rows
    tokens: list[list[int]] = [[] for _ in rows]
    logprobs: list[list[float]] = [[] for _ in rows]
    eos = torch.tensor(sorted(eos_ids), device=device)

    for t in range(max_new_tokens):
        uniform_B = None if uniforms_BT is None else uniforms_BT[live, t]
        token_B, logp_B = sample(logits_BV, temperature, uniform_B)
        ended_B = torch.isin(token_B, eos)
        ended = ended_B.tolist()
        finished_now = False
        for slot, (row, token, logp) in enumerate(zip(live, token_B.tolist(), logp_B.tolist(), strict=True)):
            if rows[row] in done:
                continue
            tokens[row].append(token)
            logprobs[row].append(logp)
            if ended[slot] or t + 1 == max_new_tokens:
                result = Generated(tuple(tokens[row]), tuple(logprobs[row]), "stop" if ended[slot] else "length")
                done[rows[row]] = result
                finished_now = True
                if on_finished is not None:
                    on_finished(*rows[row], result)
        if len(done) == len(rows):
            break
        if finished_now:
            keep = [slot for slot, row in enumerate(live) if rows[row] not in done]
            if len(keep) <= len(live) * (1 - COMPACT_AT):
                keep_B = torch.tensor(keep, device=device)
                cache.batch_select_indices(keep_B)
                token_B, mask_BL, position_B = token_B[keep_B], mask_BL[keep_B], position_B[keep_B]
                live = [live[slot] for slot in keep]
        mask_BL = torch.cat([mask_BL, mask_BL.new_ones(len(live), 1)], dim=1)
        out = model(
            input_ids=token_B[:, None],
            attention_mask=mask_BL,
            position_ids=position_B[:, None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache, logits_BV = out.past_key_values, out.logits[:, -1]
        position_B = position_B + 1
    return [[done[p, g] for g in range(len(keys))] for p, keys in enumerate(row_keys)]


def sample(logits_BV: torch.Tensor, temperature: float, uniform_B: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (token_B, logp_B): the most likely token without uniforms, else by inversion of the cumulative distribution.

    Inversion needs one uniform a token, so a row's draws do not depend on which other rows share its batch.
    """
    logp_BV = torch.log_softmax(logits_BV.double() / (temperature or 1.0), dim=-1)
    if uniform_B is None:
        token_B = logp_BV.argmax(-1)
    else:
        cdf_BV = logp_BV.exp().cumsum(-1)
        target_B = uniform_B * cdf_BV[:, -1]
        token_B = torch.searchsorted(cdf_BV, target_B[:, None], right=True)[:, 0].clamp(max=logits_BV.shape[1] - 1)
    return token_B, logp_BV.gather(1, token_B[:, None])[:, 0]
