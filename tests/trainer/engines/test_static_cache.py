"""Buffers of a fixed size give what the growing cache gives, also where the steps are played from recordings.

No GPU is needed: what stands in for a CUDA graph runs the same operations again on the same memory, so that a step that took
anything from Python, a length or a row's number, would be wrong the second time.
"""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from tape import record

from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.native import decoders
from verigym.trainer.engines.native.cuda_graphs import PLAIN_RUNS, CapturedGraphs
from verigym.trainer.engines.native.decoders import SharedDecoder, StaticDecoder, build_decoder
from verigym.trainer.engines.native.generate import generate
from verigym.trainer.rng import keyed_random

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14], [5, 9, 20, 21], list(range(10, 80))]
LONGEST = 70


def run(model: Any, static: bool, rows_at_a_time: int, temperature: float = 1.0) -> list[list[Generated]]:
    keys = [[("key", p, g) for g in range(4)] for p in range(len(PROMPTS))]
    eos = frozenset(range(1, 60, 20))
    return generate(
        model,
        PROMPTS,
        keys,
        max_new_tokens=LONGEST,
        temperature=temperature,
        eos_ids=eos,
        pad_id=0,
        rows_at_a_time=rows_at_a_time,
        static_cache=static,
    )


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[StaticDecoder]:
    """Have every static decoder record its steps; return those that were made."""
    made: list[StaticDecoder] = []

    class Recorded(StaticDecoder):
        def __init__(self, model: Any, positions: int, pad_id: int, rows: int, _: Any = None) -> None:
            super().__init__(model, positions, pad_id, rows, record)
            made.append(self)

    monkeypatch.setattr(decoders, "StaticDecoder", Recorded)
    return made


@pytest.fixture(scope="module")
def exact_model(tiny_model: Any) -> Any:
    return copy.deepcopy(tiny_model).double()


@pytest.fixture(scope="module")
def growing(exact_model: Any) -> dict[float, list[list[Generated]]]:
    """What the growing cache gives by temperature, whatever the rows at a time (see test_generate.py)."""
    return {temperature: run(exact_model, False, 64, temperature) for temperature in (1.0, 0.0)}


@pytest.mark.parametrize(
    ("plays", "rows_at_a_time", "temperature"),
    [(False, 7, 1.0), (True, 64, 1.0), (True, 7, 1.0), (True, 1, 1.0), (True, 64, 0.0)],
)
@pytest.mark.slow
def test_completions_are_those_of_the_growing_cache(
    exact_model: Any,
    growing: dict[float, list[list[Generated]]],
    plays: bool,
    rows_at_a_time: int,
    temperature: float,
    request: pytest.FixtureRequest,
) -> None:
    made = request.getfixturevalue("recorded") if plays else []
    static = run(exact_model, True, rows_at_a_time, temperature)
    for ours, theirs in zip(static, growing[temperature], strict=True):
        for row, other in zip(ours, theirs, strict=True):
            assert (row.token_ids, row.finish_reason) == (other.token_ids, other.finish_reason)
            torch.testing.assert_close(torch.tensor(row.logprobs), torch.tensor(other.logprobs), rtol=0, atol=1e-9)
    lengths = {row.length for rows in static for row in rows}
    assert temperature == 0 or (len(lengths) > 5 and max(lengths) > 20), "rows should come and go, and some stay long"
    if plays:
        (decoder,) = made
        shapes = set(decoder.graphs._made)
        assert shapes and {rows & (rows - 1) for rows, _ in shapes if rows != min(rows_at_a_time, 20)} <= {0}
        assert len(shapes) <= 2 * 6, "of each size a shape, however many steps there were"


def test_logits_are_the_same_while_rows_come_and_go(tiny_model: Any, assert_same: Any) -> None:
    model = copy.deepcopy(tiny_model).double()
    random = keyed_random("static rows")
    with torch.no_grad():
        tried = [SharedDecoder(model, 150, 0), StaticDecoder(model, 150, 0, 8, record)]
        live = [(p, PROMPTS[p]) for p in (0, 0, 4, 1, 2)]
        logits = [decoder.add(live) for decoder in tried]
        for step in range(40):
            assert_same(logits[1], logits[0])
            rows = len(logits[0])
            if step % 7 == 3:
                gone = random.sample(range(rows), min(2, rows - 1))
                left = [decoder.remove(gone) for decoder in tried]
                assert left[0] == left[1]
                rows = len(left[0])
            token_B = torch.tensor([random.randrange(1, 50) for _ in range(rows)])
            logits = [decoder.step(token_B) for decoder in tried]
            if step % 7 == 5:  # a prompt that has rows or had some, and one that may be new
                new = [(p, PROMPTS[p]) for p in (0, step % 5)]
                logits = [torch.cat([old, decoder.add(new)]) for old, decoder in zip(logits, tried, strict=True)]


def test_nothing_moves_and_weights_are_those_of_the_moment(tiny_model: Any) -> None:
    model = copy.deepcopy(tiny_model)
    for factor in (1.0, 0.5):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(factor)
            static, growing = build_decoder(model, 90, 70, 0, static_rows=3), build_decoder(model, 90, 70, 0)
            assert isinstance(static, StaticDecoder)
            place = static.cache._states.data_ptr()
            for decoder in (static, growing):
                decoder.add([(0, [5, 6, 7]), (1, [8])])
            for token in range(1, 70):
                found, expected = (decoder.step(torch.tensor([token, token])) for decoder in (static, growing))
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            assert static.cache._states.data_ptr() == place


def test_a_model_that_is_not_known_is_decoded_plainly_without_graphs(tiny_model: Any) -> None:
    model = copy.deepcopy(tiny_model)
    model.config.model_type = "another"
    assert isinstance(build_decoder(model, 8, 4, 0, static_rows=2), decoders.PlainDecoder)


def test_a_shape_is_recorded_when_it_has_come_a_few_times() -> None:
    given = torch.zeros(2)
    ran = []

    def run() -> torch.Tensor:
        ran.append(1)
        return given * 2

    graphs = CapturedGraphs(record)
    for number in range(PLAIN_RUNS + 3):
        given.fill_(float(number))
        assert graphs("shape", run).tolist() == [2.0 * number] * 2
    assert len(ran) == PLAIN_RUNS + 1, "once more, to record it"
    assert graphs("another", run).tolist() == [2.0 * (PLAIN_RUNS + 2)] * 2
    assert len(ran) == PLAIN_RUNS + 2


def test_what_cannot_be_recorded_is_run(caplog: pytest.LogCaptureFixture) -> None:
    def refuses(run: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors might ...")

    graphs = CapturedGraphs(refuses)
    with caplog.at_level(logging.WARNING, logger="verigym.trainer"):
        found = [float(graphs("shape", lambda: torch.ones(()))) for _ in range(6)]
    assert found == [1.0] * 6
    assert [record.message for record in caplog.records] == [
        "CUDA graphs are off for this generation, which is slower and otherwise the same: "
        "operation not permitted when stream is capturing CUDA kernel errors might ..."
    ]
