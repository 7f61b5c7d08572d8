"""The plain reference writes what the native engine writes, because both draw with the same uniforms."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment

from verigym.trainer.config.run import build_config
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.hf import TransformersEngine
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.learner.update import policy_logprobs
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec

LONGEST = 12
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
KEYS = [[("a", p, g) for g in range(count)] for p, count in enumerate((3, 1, 4))]


@pytest.fixture(scope="module")
def model(tiny_tokenizer: Any, tiny_model: Any) -> Any:
    """A model that one token in twenty ends, so that lengths differ."""
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 20))
    # What a model may bring along, and no engine may apply.
    model.generation_config.repetition_penalty = 5.0
    model.generation_config.min_new_tokens = 4
    return model


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any, model: Any) -> Codec:
    return Codec(tiny_tokenizer, model.generation_config)


def run(kind: Any, model: Any, codec: Codec, temperature: float, rows: int = 64) -> tuple[Any, Any]:
    engine = kind(model, codec, rows_at_a_time=rows, dtype="fp32")
    told: dict[tuple[int, int], Generated] = {}

    def finished(p: int, g: int, done: Generated) -> None:
        assert (p, g) not in told
        told[p, g] = done

    engine.sync()
    found = engine.generate(PROMPTS, KEYS, max_new_tokens=LONGEST, temperature=temperature, on_finished=finished)
    assert told == {(p, g): done for p, row in enumerate(found) for g, done in enumerate(row)}
    return found, list(told)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
def test_it_writes_what_the_native_engine_writes(temperature: float, model: Any, codec: Codec) -> None:
    native, _ = run(NativeEngine, model, codec, temperature)
    plain, order = run(TransformersEngine, model, codec, temperature)
    assert [len(row) for row in plain] == [3, 1, 4]
    for ours, theirs in zip(sum(native, []), sum(plain, []), strict=True):
        assert ours.token_ids == theirs.token_ids
        assert ours.finish_reason == theirs.finish_reason
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
    if temperature:
        assert {done.finish_reason for row in plain for done in row} == {"stop", "length"}
        lengths = [len(plain[p][g].token_ids) for p, g in order]
        assert lengths == sorted(lengths), "a completion is told of as soon as it ends"


def test_portions_change_nothing(model: Any, codec: Codec) -> None:
    whole, _ = run(TransformersEngine, model, codec, 1.0)
    portions, _ = run(TransformersEngine, model, codec, 1.0, rows=3)
    assert [[done.token_ids for done in row] for row in portions] == [[done.token_ids for done in row] for row in whole]


def test_its_log_probabilities_are_the_trainers(model: Any, codec: Codec) -> None:
    found, _ = run(TransformersEngine, model, codec, 0.7)
    rows = [TrainingRow(tuple(PROMPTS[p]), done.token_ids, 0.0, True) for p, row in enumerate(found) for done in row]
    trained = policy_logprobs(model, rows, temperature=0.7, token_budget=4096, pad_id=codec.pad_id)
    for done, logps in zip(sum(found, []), trained, strict=True):
        assert done.logprobs == pytest.approx(logps, abs=1e-4)


def test_the_models_own_settings_are_back_afterwards(model: Any, codec: Codec) -> None:
    before = model.generation_config.to_dict()
    run(TransformersEngine, model, codec, 1.0)
    assert model.generation_config.to_dict() == before


def test_a_run_learns_the_same_with_it(tmp_path: Path, tiny_tokenizer: Any, model: Any) -> None:
    folder = tmp_path / "model"
    plain = copy.deepcopy(model)
    plain.generation_config.repetition_penalty = plain.generation_config.min_new_tokens = None
    plain.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    weights = []
    for engine in ("native", "transformers"):
        fields = {
            "model": str(folder),
            "output": str(tmp_path / engine),
            "sources": [{"environment": "letters"}],
            "engine": engine,
            "steps": 3,
            "prompts_per_step": 2,
            "group_size": 4,
            "max_new_tokens": 8,
            "learning_rate": 1e-3,
            "warmup_steps": 0,
            "eval_every": 0,
            "threads": 1,
            "workers": 0,
            "device": "cpu",
        }
        train(build_config(fields, "test"), {"letters": LettersEnvironment()})
        from safetensors.torch import load_file

        weights.append(load_file(tmp_path / engine / "final/model.safetensors"))
    start = {name: value for name, value in plain.state_dict().items()}
    for name, native in weights[0].items():
        torch.testing.assert_close(native, weights[1][name], rtol=1e-4, atol=1e-5)
    assert any(not torch.equal(native, start[name]) for name, native in weights[0].items())
