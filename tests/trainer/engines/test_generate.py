"""Native generation against the plainest decoding there is: one row, no cache, the whole forward pass for every token."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.native.generate import generate, sample
from verigym.trainer.rng import keyed_uniforms

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14], [5, 9, 20, 21]]
LONGEST = 12


def naive(
    model: Any, prompt: list[int], key: tuple[object, ...], temperature: float, eos: int
) -> tuple[list[int], list[float]]:
    uniforms = keyed_uniforms(LONGEST, *key)
    ids, tokens, logprobs = list(prompt), [], []
    for t in range(LONGEST):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1].double()
        logp = torch.log_softmax(logits / (temperature or 1.0), -1)
        if temperature == 0:
            token = int(logp.argmax())
        else:
            cdf = logp.exp().cumsum(-1)
            token = int((cdf <= uniforms[t] * cdf[-1]).sum())
        ids.append(token)
        tokens.append(token)
        logprobs.append(float(logp[token]))
        if token == eos:
            break
    return tokens, logprobs


def run(model: Any, prompts: list[list[int]], samples: int, temperature: float, eos: int, **more: Any) -> list[list[Generated]]:
    keys = [[("key", p, g) for g in range(samples)] for p in range(len(prompts))]
    return generate(
        model,
        prompts,
        keys,
        max_new_tokens=LONGEST,
        temperature=temperature,
        eos_ids=frozenset([eos]),
        pad_id=0,
        **more,
    )


@cache
def frequent_token(model: Any) -> int:
    """A token that ends some rows early and others not at all, so that rows are compacted away."""
    rows = [naive(model, prompt, ("key", p, g), 1.0, -1)[0] for p, prompt in enumerate(PROMPTS) for g in range(3)]
    counts = torch.bincount(torch.tensor([token for row in rows for token in set(row)]))
    return int(counts.argmax())


@pytest.mark.parametrize(
    ("temperature", "plain", "long"), [(0.0, 0, 1), (0.7, 0, 1), (1.0, 0, 1), (1.0, 1, 1), (1.0, 1, 10**9)]
)
def test_equals_naive_decoding(
    tiny_model: Any, temperature: float, plain: int, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if plain:
        monkeypatch.setattr("verigym.trainer.engines.native.decoders.decodable", lambda model: False)
    monkeypatch.setattr("verigym.trainer.engines.native.decoders.LONG", long)  # the plain cache with room, and without
    eos = frequent_token(tiny_model)
    found = run(tiny_model, PROMPTS, 3, temperature, eos)
    lengths = set()
    for p, prompt in enumerate(PROMPTS):
        for g in range(3):
            tokens, logprobs = naive(tiny_model, prompt, ("key", p, g), temperature, eos)
            assert list(found[p][g].token_ids) == tokens
            assert found[p][g].finish_reason == ("stop" if tokens[-1] == eos else "length")
            torch.testing.assert_close(torch.tensor(found[p][g].logprobs), torch.tensor(logprobs), rtol=0, atol=1e-5)
            lengths.add(len(tokens))
    if temperature == 1.0:
        assert len(lengths) > 2, "rows should end at different times, or compaction is not tested"


def test_a_row_does_not_depend_on_its_neighbours(tiny_model: Any) -> None:
    together = run(tiny_model, PROMPTS, 4, 1.0, 3)
    alone = generate(
        tiny_model,
        [PROMPTS[2]],
        [[("key", 2, 1)]],
        max_new_tokens=LONGEST,
        temperature=1.0,
        eos_ids=frozenset([3]),
        pad_id=0,
    )
    assert alone[0][0].token_ids == together[2][1].token_ids


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rows_at_a_time", [1, 3, 8, 64])
def test_the_schedule_changes_nothing(
    tiny_model: Any, shared: bool, rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    eos = frequent_token(tiny_model)
    whole = run(tiny_model, PROMPTS, 3, 1.0, eos)
    most = 0

    def look(logits_BV: torch.Tensor, *more: Any) -> Any:
        nonlocal most
        most = max(most, len(logits_BV))
        return sample(logits_BV, *more)

    monkeypatch.setattr("verigym.trainer.engines.native.generate.sample", look)
    monkeypatch.setattr("verigym.trainer.engines.native.decoders.decodable", lambda model: shared)
    found = run(tiny_model, PROMPTS, 3, 1.0, eos, rows_at_a_time=rows_at_a_time)
    assert [[done.token_ids for done in group] for group in found] == [[done.token_ids for done in group] for group in whole]
    assert most == min(rows_at_a_time, 12) if shared else most <= rows_at_a_time


def test_the_same_run_twice_is_the_same_to_the_bit(tiny_model: Any) -> None:
    first, second = (run(tiny_model, PROMPTS, 3, 1.0, 3, rows_at_a_time=5) for _ in range(2))
    assert first == second


def test_each_row_is_announced_once_and_as_it_is_returned(tiny_model: Any) -> None:
    announced: dict[tuple[int, int], Generated] = {}

    def on_finished(p: int, g: int, done: Generated) -> None:
        assert (p, g) not in announced
        announced[p, g] = done

    found = run(tiny_model, PROMPTS, 3, 1.0, frequent_token(tiny_model), on_finished=on_finished)
    assert announced == {(p, g): done for p, row in enumerate(found) for g, done in enumerate(row)}


def test_sampling_follows_the_distribution() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).expand(20_000, -1)
    uniforms = keyed_uniforms(20_000, "frequencies")
    tokens, logp = sample(logits, 0.5, uniforms)
    expected = torch.softmax(logits[0].double() / 0.5, -1)
    shares = torch.bincount(tokens, minlength=4) / len(tokens)
    assert (shares - expected).abs().max() < 0.01
    torch.testing.assert_close(logp, expected.log()[tokens])


def test_extreme_uniforms_stay_inside_the_vocabulary_and_never_pick_the_impossible() -> None:
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf")]]).expand(2, -1)
    tokens, _ = sample(logits, 1.0, torch.tensor([0.0, 1.0 - 2**-53], dtype=torch.float64))
    assert tokens.tolist() == [1, 1]
