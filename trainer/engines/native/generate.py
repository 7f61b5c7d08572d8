"""Decode loop: one prefill per prompt; finished rows leave at once, and waiting rows take their places.

Legend: P prompts, B rows that are being decoded, V vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import torch

from verigym.trainer.engines.base import Arrivals, Generated, OnFinished, Request, report_tokens, requests_of
from verigym.trainer.engines.native.decoders import Decoder, build_decoder
from verigym.trainer.engines.native.turn_cache import RowStates, TurnCache
from verigym.trainer.rng import keyed_uniforms

REFILL_AT = 0.125
"""At most `rows_at_a_time` rows are decoded together. Waiting rows join when all of them fit, or when at least this share of
that number is unused: each prefill pauses decoding, so several rows are prefilled together."""


@dataclass
class _DecodingRow:
    request: Request
    number: int
    """Of its prompt."""
    draws: Any = ()
    """One uniform per token; empty at temperature 0."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: Generated | None = None


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
    on_finished: OnFinished | None = None,
) -> list[list[Generated]]:
    """Sample completions of each prompt.

    Args:
        model: a transformers causal language model.
        prompts: P token sequences of any lengths, none empty.
        row_keys: for each prompt, one randomness key per sample; a row's draws depend on its key alone.
        max_new_tokens: most tokens of a completion.
        temperature: 0 samples greedily.
        eos_ids: tokens that end a completion.
        pad_id: any valid token id.
        rows_at_a_time: most completions decoded at the same time; None decodes all of them together.
        static_cache: if True, keys and values are in buffers of a fixed size, which CUDA graphs need.
        on_finished: see `engines.base.OnFinished`.

    Returns:
        For each prompt its completions, in the order of its keys.
    """
    completions: list[list[Any]] = [[None] * len(keys) for keys in row_keys]

    def finished(p: int, g: int, done: Generated) -> None:
        completions[p][g] = done
        if on_finished is not None:
            on_finished(p, g, done)

    play(
        model,
        requests_of(prompts, row_keys, max_new_tokens),
        temperature=temperature,
        eos_ids=eos_ids,
        pad_id=pad_id,
        rows_at_a_time=rows_at_a_time,
        static_cache=static_cache,
        on_finished=finished,
    )
    return completions


@torch.no_grad()
def play(
    model: Any,
    requests: Sequence[Request],
    *,
    temperature: float,
    eos_ids: frozenset[int],
    pad_id: int,
    on_finished: OnFinished,
    rows_at_a_time: int | None = None,
    static_cache: bool = False,
    arrivals: Arrivals | None = None,
    turn_cache: TurnCache | None = None,
) -> None:
    """Sample a completion for each of `requests`, and for requests that arrive while these are sampled.

    Args:
        model: see `generate`.
        requests: the completions to sample. Requests whose `place` has the same first number and whose prompts are equal share
            the prompt's keys and values.
        temperature: see `generate`.
        eos_ids: see `generate`.
        pad_id: see `generate`.
        on_finished: called with each completion.
        rows_at_a_time: see `generate`.
        static_cache: see `generate`; not with `arrivals`, because the lengths of later requests are not known at the start.
        arrivals: see `engines.base.Arrivals`.
        turn_cache: keeps the keys and values of episodes for their next turns.
    """
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    waiting = deque(_DecodingRow(one, numbers.setdefault((one.place[0], tuple(one.prompt)), len(numbers))) for one in requests)
    fresh = count(len(numbers))
    positions = max((len(one.prompt) + one.max_new_tokens for one in requests), default=1)
    most = max((one.max_new_tokens for one in requests), default=1)
    places = max(1, rows_at_a_time or len(waiting))
    static_rows = min(places, len(waiting)) if static_cache else None
    decoder = build_decoder(model, positions, most, pad_id, static_rows)
    live: list[_DecodingRow] = []
    logits: list[torch.Tensor] = []  # of the live rows

    while True:
        if arrivals is not None:
            for one in arrivals(not live and not waiting):
                decoder.reach(len(one.prompt) + one.max_new_tokens)
                waiting.append(_DecodingRow(one, next(fresh)))
        if not live and not waiting:
            return
        new = _next(waiting, len(live), places, decoder.refills)
        if new:
            logits.append(_join(decoder, new, temperature, turn_cache, fresh))
            live += new
        logits_BV = torch.cat(logits)
        draws = [row.draws[len(row.tokens)] for row in live] if temperature > 0 else None
        uniform_B = None if draws is None else torch.tensor(draws, dtype=torch.float64, device=logits_BV.device)
        token_B, logp_B = sample(logits_BV, temperature, uniform_B)
        report_tokens(len(live))
        ended = []
        for number, (row, token, logp) in enumerate(zip(live, token_B.tolist(), logp_B.tolist(), strict=True)):
            if row.done is not None:
                continue
            row.tokens.append(token)
            row.logprobs.append(logp)
            if token in eos_ids or len(row.tokens) == row.request.max_new_tokens:
                row.done = Generated(tuple(row.tokens), tuple(row.logprobs), "stop" if token in eos_ids else "length")
                ended.append(number)
                _keep(turn_cache, decoder, number, row)
                on_finished(*row.request.place, row.done)
        if ended:
            left = decoder.remove(ended)
            live = [live[number] for number in left]
            token_B = token_B[left]
        logits = [decoder.step(token_B)] if live else []


def _join(
    decoder: Decoder, rows: Sequence[_DecodingRow], temperature: float, turn_cache: TurnCache | None, fresh: Iterator[int]
) -> torch.Tensor:
    """Add `rows` to the decoder and return the logits of their first tokens.

    Args:
        decoder: decodes the rows.
        rows: the rows to add.
        temperature: 0 needs no uniforms.
        turn_cache: may have the keys and values of the earlier turns of these rows.
        fresh: numbers for prompts that are not shared.
    """
    begun: dict[int, RowStates] = {}
    for row in rows:
        request = row.request
        if temperature > 0:
            row.draws = keyed_uniforms(request.max_new_tokens, *request.key).numpy()
        states = turn_cache.take(request.episode, request.prompt) if turn_cache is not None else None
        if states is not None:
            row.number = next(fresh)
            begun[row.number] = states
    return decoder.add([(row.number, row.request.prompt) for row in rows], begun)


def _keep(turn_cache: TurnCache | None, decoder: Decoder, number: int, row: _DecodingRow) -> None:
    """Store the keys and values of the ended row `row` in `turn_cache` if its episode may go on.

    A turn that its token limit cut off is the last one of its episode.
    """
    assert row.done is not None
    request = row.request
    if turn_cache is None or request.episode is None or row.done.finish_reason != "stop" or not decoder.token_bytes:
        return
    ids = (*request.prompt, *row.tokens[:-1])  # the last token was not run yet
    turn_cache.keep(request.episode, ids, len(ids) * decoder.token_bytes, lambda: decoder.states(number))


def _next(waiting: deque[_DecodingRow], live: int, places: int, refills: bool) -> list[_DecodingRow]:
    """Remove from `waiting` and return the rows that are added to the decoder now.

    Args:
        waiting: rows in order; changed in place.
        live: number of rows that are being decoded.
        places: most rows that are decoded at the same time.
        refills: True if rows can be added while others are decoded; if not, a prompt's rows are kept together if they fit.
    """
    joining = min(places - live, len(waiting))
    if joining == 0 or (live and (not refills or joining < min(len(waiting), int(places * REFILL_AT)))):
        return []
    if not refills and joining < len(waiting):
        cut = waiting[joining].number
        whole = sum(1 for row in islice(waiting, joining) if row.number != cut)
        joining = whole or joining
    return [waiting.popleft() for _ in range(joining)]


def sample(logits_BV: torch.Tensor, temperature: float, uniform_B: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (token_B, logp_B). If `uniform_B` is None, the token is the most likely one; otherwise it is sampled.

    A token is drawn by inverting the cumulative distribution at the row's uniform random number in `uniform_B`. So a row's
    tokens do not depend on the other rows of its batch.
    """
    logp_BV = torch.log_softmax(logits_BV.double() / (temperature or 1.0), dim=-1)
    if uniform_B is None:
        token_B = logp_BV.argmax(-1)
    else:
        cdf_BV = logp_BV.exp().cumsum(-1)
        target_B = uniform_B * cdf_BV[:, -1]
        token_B = torch.searchsorted(cdf_BV, target_B[:, None], right=True)[:, 0].clamp(max=logits_BV.shape[1] - 1)
    return token_B, logp_BV.gather(1, token_B[:, None])[:, 0]
