"""Packing: puts several examples into one row of a forward pass, for less padding; examples do not attend to each other.

Position ids restart with each example, and transformers builds the attention mask from them. Each model is tested on a few
tokens first. If examples in a row attend to each other, each example gets its own row.

Legend: R packed rows, L positions, N completion tokens, B examples, T completion tokens (padded).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch

from verigym.trainer.logprobs.forward import (
    CompletionLogprobs,
    ExpectGradient,
    ForwardOptions,
    autocast,
    decoder,
    evaluating,
    logprobs_from_hidden,
    micro_batches,
    row_logprobs,
    usable_head,
)
from verigym.trainer.logprobs.shared_prefix import Pass

logger = logging.getLogger("verigym.trainer")


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Pack sequences of the given `lengths` into rows, by first fit decreasing; return each row as a list of sequence numbers.

    Each row has at most `capacity` tokens; a longer sequence has a row of its own. First fit decreasing uses at most 11/9 of
    the smallest number of rows, plus one (Johnson 1973).
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: (-lengths[number], number)):
        place = next((row for row, left in enumerate(room) if lengths[number] <= left), None)
        if place is None:
            rows.append([number])
            room.append(capacity - lengths[number])
        else:
            rows[place].append(number)
            room[place] -= lengths[number]
    return rows


def hidden_packed(
    model: Any,
    rows: Sequence[Sequence[int]],
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    how: ForwardOptions,
) -> torch.Tensor:
    """Return the last hidden states before each completion token, `[N, H]`, in the order in which `rows` lists the sequences.

    If the model's head is not known, return logits `[N, V]` instead.
    """
    ids: list[list[int]] = []
    places: list[list[int]] = []
    at: list[int] = []
    # The last token of an example is only predicted.
    width = max(sum(len(prompts[n]) + len(completions[n]) - 1 for n in row) for row in rows)
    for place, row in enumerate(rows):
        line: list[int] = []
        positions: list[int] = []
        for n in row:
            start = place * width + len(line) + len(prompts[n]) - 1
            at.extend(range(start, start + len(completions[n])))
            line.extend([*prompts[n], *completions[n]][:-1])
            positions.extend(range(len(prompts[n]) + len(completions[n]) - 1))
        spare = width - len(line)
        ids.append([*line, *[how.pad_id] * spare])
        places.append([*positions, *range(spare)])
    ids_RL = torch.tensor(ids, device=model.device)
    places_RL = torch.tensor(places, device=model.device)
    with autocast(model.device, how.dtype):
        if usable_head(model) is not None:
            hidden = decoder(model)(input_ids=ids_RL, position_ids=places_RL, use_cache=False).last_hidden_state
        else:
            hidden = model(input_ids=ids_RL, position_ids=places_RL, use_cache=False).logits
    found: torch.Tensor = hidden.flatten(0, 1)[torch.tensor(at, device=model.device)]
    return found


def score_packed(
    model: Any,
    rows: Sequence[Sequence[int]],
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    how: ForwardOptions,
    expect: ExpectGradient | None = None,
) -> CompletionLogprobs:
    """Return the log-probabilities of the packed completions; see `forward.row_logprobs`."""
    hidden = hidden_packed(model, rows, prompts, completions, how)
    return logprobs_from_hidden(hidden, usable_head(model), [completions[n] for row in rows for n in row], how, expect)


def packed_rows(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    how: ForwardOptions,
    capacity: int | None,
) -> Iterator[list[list[int]]]:
    """Divide examples into packed rows, and yield the rows in micro-batches within the token budget.

    A packed row is a list of the numbers of its examples.

    Args:
        model: a transformers causal language model.
        prompts: prompts of all examples, none empty.
        completions: completions of all examples, none empty.
        how: options of the forward pass.
        capacity: most tokens of a row. None for twice the longest example; longer rows take more time, as
            attention is quadratic.
    """
    lengths = [len(prompt) + len(completion) for prompt, completion in zip(prompts, completions, strict=True)]
    wide = capacity or 2 * max(lengths)
    rows = pack(lengths, wide) if packable(model) else [[number] for number in range(len(lengths))]
    totals = [sum(lengths[number] for number in row) for row in rows]
    for batch in micro_batches(totals, how.token_budget, model.device.type):
        yield [rows[place] for place in batch]


def packed_passes(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    how: ForwardOptions,
    capacity: int | None = None,
) -> Iterator[tuple[list[int], Pass]]:
    """Yield micro-batches of packed rows as pairs (example numbers, a function that runs their forward pass).

    The caller must run each function, and the backward pass if there is one, before taking the next pair.
    """
    for rows in packed_rows(model, prompts, completions, how, capacity):
        yield [number for row in rows for number in row], partial(score_packed, model, rows, prompts, completions, how)


_packable: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def packable(model: Any) -> bool:
    """Return True if the examples of a packed row do not attend to each other in `model`.

    This is tested once per model, on a few tokens.
    """
    if model not in _packable:
        prompts, completions, how = [[0, 1, 2], [3], [1, 3]], [[1, 2], [0, 3, 3, 1], [2]], ForwardOptions(pad_id=0)
        with torch.no_grad(), evaluating(model):
            alone = row_logprobs(model, prompts, completions, how).logp_BT
            try:
                together = score_packed(model, [[0, 1, 2]], prompts, completions, how).logp_BT
                fine = torch.allclose(together, alone, rtol=1e-3, atol=1e-3)
            except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                logger.info("%s cannot be packed: %s", type(model).__name__, " ".join(str(error).split())[:200])
                fine = False
        if not fine:
            logger.info("%s: examples are not packed, because they would see each other", type(model).__name__)
        _packable[model] = fine
    return _packable[model]
