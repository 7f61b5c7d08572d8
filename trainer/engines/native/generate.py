"""Decode loop: one prefill per prompt; finished rows leave at once, and waiting rows take their places.

Legend: P prompts, B rows that are being decoded, V vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.native.decoders import build_decoder
from verigym.trainer.rng import keyed_uniforms

REFILL_AT = 0.125
"""New rows join when this share of the places is free, because decoding pauses for the prefill of their prompts."""


@dataclass
class _DecodingRow:
    place: tuple[int, int]
    """Prompt index, sample index."""
    draws: Any
    """One uniform per token; empty at temperature 0."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: Generated | None = None


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
    rows_at_a_time: int | None = None,
    static_cache: bool = False,
    on_finished: Callable[[int, int, Generated], None] | None = None,
) -> list[list[Generated]]:
    """Sample completions.

    Args:
        model: a transformers causal language model.
        prompts: P token sequences of any lengths, none empty.
        row_keys: for each prompt, one randomness key per sample; a row's draws depend on its key alone.
        max_new_tokens: most tokens of a completion.
        temperature: 0 samples greedily.
        eos_ids: tokens that end a completion.
        pad_id: any valid token id.
        rows_at_a_time: most completions decoded at the same time; all of them where None.
        static_cache: whether keys and values are in buffers of a fixed size, which CUDA graphs need.
        on_finished: see `engines.base.OnFinished`.

    Returns:
        For each prompt its completions, in the order of its keys.
    """
    positions = max(map(len, prompts), default=0) + max_new_tokens
    waiting = deque((p, g) for p, keys in enumerate(row_keys) for g in range(len(keys)))
    completions: list[list[Any]] = [[None] * len(keys) for keys in row_keys]
    places = max(1, rows_at_a_time or len(waiting))
    static_rows = min(places, len(waiting)) if static_cache else None
    decoder = build_decoder(model, positions, max_new_tokens, pad_id, static_rows)
    live: list[_DecodingRow] = []
    logits: list[torch.Tensor] = []  # of the live rows

    while live or waiting:
        new = [
            _DecodingRow((p, g), keyed_uniforms(max_new_tokens, *row_keys[p][g]).numpy() if temperature > 0 else ())
            for p, g in _next(waiting, len(live), places, decoder.refills)
        ]
        if new:
            logits.append(decoder.add([(row.place[0], prompts[row.place[0]]) for row in new]))
            live += new
        logits_BV = torch.cat(logits)
        draws = [row.draws[len(row.tokens)] for row in live] if temperature > 0 else None
        uniform_B = None if draws is None else torch.tensor(draws, dtype=torch.float64, device=logits_BV.device)
        token_B, logp_B = sample(logits_BV, temperature, uniform_B)
        ended = []
        for number, (row, token, logp) in enumerate(zip(live, token_B.tolist(), logp_B.tolist(), strict=True)):
            if row.done is not None:
                continue
            row.tokens.append(token)
            row.logprobs.append(logp)
            if token in eos_ids or len(row.tokens) == max_new_tokens:
                p, g = row.place
                row.done = Generated(tuple(row.tokens), tuple(row.logprobs), "stop" if token in eos_ids else "length")
                completions[p][g] = row.done
                ended.append(number)
                if on_finished is not None:
                    on_finished(p, g, row.done)
        if ended:
            left = decoder.remove(ended)
            live = [live[number] for number in left]
            token_B = token_B[left]
        logits = [decoder.step(token_B)] if live else []
    return completions


def _next(waiting: deque[tuple[int, int]], live: int, places: int, refills: bool) -> list[tuple[int, int]]:
    """Remove and return the waiting rows that join now.

    Args:
        waiting: (prompt, sample) in order; changed in place.
        live: number of rows that are being decoded.
        places: most rows that are decoded at the same time.
        refills: whether rows can join while others are decoded; if not, a prompt's rows are kept together where they fit.
    """
    count = min(places - live, len(waiting))
    if count == 0 or (live and (not refills or count < min(len(waiting), int(places * REFILL_AT)))):
        return []
    if not refills and count < len(waiting):
        cut = waiting[count][0]
        whole = sum(1 for p, _ in islice(waiting, count) if p != cut)
        count = whole or count
    return [waiting.popleft() for _ in range(count)]


def sample(logits_BV: torch.Tensor, temperature: float, uniform_B: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (token_B, logp_B): the most likely token without uniforms, else sampled by inverting the cumulative distribution.

    Inversion needs one uniform per token, so a row's draws do not depend on the other rows of its batch.
    """
    logp_BV = torch.log_softmax(logits_BV.double() / (temperature or 1.0), dim=-1)
    if uniform_B is None:
        token_B = logp_BV.argmax(-1)
    else:
        cdf_BV = logp_BV.exp().cumsum(-1)
        target_B = uniform_B * cdf_BV[:, -1]
        token_B = torch.searchsorted(cdf_BV, target_B[:, None], right=True)[:, 0].clamp(max=logits_BV.shape[1] - 1)
    return token_B, logp_BV.gather(1, token_B[:, None])[:, 0]
