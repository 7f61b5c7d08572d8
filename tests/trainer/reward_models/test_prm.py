from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from even_task import EVENS, CarriesOn, EvenEnvironment, solution

from verigym.envs.contract.errors import UsageError
from verigym.envs.generated.families import split_of
from verigym.envs.grading import Grader
from verigym.envs.process.environment import ProcessEnvironment
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.reward_models.config import PrmConfig
from verigym.trainer.reward_models.labelled_solutions import LabelledSolution
from verigym.trainer.reward_models.math_shepherd import roll_out
from verigym.trainer.reward_models.process_model import ProcessRewardModel
from verigym.trainer.reward_models.process_training import train_prm
from verigym.trainer.rng import keyed_random

ENV = EvenEnvironment()


def new_model(hidden_size: int = 16) -> ProcessRewardModel:
    tokenizer = scratch_tokenizer([f"Case 473: an even number?\n{solution('38')}"], 300)
    model = scratch_qwen3(tokenizer, hidden_size=hidden_size, layers=2, heads=2, intermediate_size=2 * hidden_size)
    return ProcessRewardModel(model, tokenizer, seed=0)


def solutions(split: str, count: int) -> list[tuple[Any, str, bool]]:
    """Tasks with a solution each, about half of them wrong, and whether it is right. No number is in both splits."""
    numbers = [str(number) for number in range(10, 100) if split_of(str(number)) == split]
    found = []
    for index in range(count):
        number = keyed_random("even", split, index).choice(numbers)
        found.append((ENV.prompt_at(split, 0, index), solution(number), number in EVENS))
    return found


def test_steps_without_a_label_are_not_trained_on(assert_same: Any) -> None:
    model, prompt = new_model(), ENV.prompt_at("train", 0, 0)
    some = LabelledSolution(prompt, ("I take 38.", "a", "b"), (1.0, None, 0.0))
    rows = [model.tokens(one) for one in (some, LabelledSolution(prompt, ("x",), (None,)))]
    logits_N2, label_N = model.logits(rows)
    assert label_N.tolist() == [1.0, 0.0]
    everything, _ = model.logits([model.tokens(LabelledSolution(prompt, some.steps, (1.0, 1.0, 1.0)))])
    assert_same(logits_N2.detach(), everything[[0, 2]])


@pytest.mark.parametrize(
    ("steps", "labels", "words"), [((), (), "0 steps"), (("a",), (1.0, 1.0), "one a step"), (("a",), (1.5,), "probability")]
)
def test_bad_labels_are_refused(steps: Any, labels: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LabelledSolution(ENV.prompt_at("train", 0, 0), steps, labels)


def test_the_head_depends_on_the_seed_and_a_saved_model_is_the_same_one(tmp_path: Path) -> None:
    first, again = new_model(), new_model()
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    first.save(tmp_path)
    loaded = ProcessRewardModel.load(tmp_path)
    assert first.state_dict().keys() == loaded.state_dict().keys()
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in first.state_dict().items())
    other = ProcessRewardModel(first.model, first.tokenizer, seed=1)
    assert not torch.equal(other.score[0].weight, again.score[0].weight)


@pytest.mark.slow
def test_from_rollouts_to_a_model_that_tells_right_steps_from_wrong_ones(tmp_path: Path) -> None:
    base = tmp_path / "base"
    tokenizer = scratch_tokenizer([f"Case 473: an even number?\n{solution('38')}"], 300)
    scratch_qwen3(tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64).save_pretrained(base)
    tokenizer.save_pretrained(base)
    codec = Codec(tokenizer)
    seen = solutions("train", 200)
    with Grader(ENV, workers=0) as grader:
        found = roll_out(CarriesOn(codec), codec, grader, [(p, text) for p, text, _ in seen], samples=1, max_new_tokens=40)
    assert [one.labels() for one in found] == [(float(right),) * 2 for _, _, right in seen]
    rows = [
        {"prompt": one.prompt.text, "steps": one.labelled().steps, "right": one.right, "scored": one.scored} for one in found
    ]
    data = tmp_path / "labels.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    quick = {"device": "cpu", "threads": 1, "loggers": (), "warmup_steps": 16, "schedule": "linear", "learning_rate": 5e-3}
    config = PrmConfig(model=str(base), output=tmp_path / "out", data=(data,), steps=160, batch_size=16, **quick)
    final = train_prm(config)
    losses = [row["loss"] for row in read_rows(tmp_path / "out/metrics.jsonl") if row["kind"] == "train"]
    assert losses[0] > 0.5 and sum(losses[-10:]) / 10 < 0.35
    env = ProcessEnvironment(kind="qwen", model=str(final), device="cpu")
    held_out = solutions("test", 60)
    assert not {text for _, text, _ in held_out} & {text for _, text, _ in seen}
    scores = env.score_batch([(env.prompt(prompt.text), text) for prompt, text, _ in held_out])
    right = [score.steps[0].reward for score, (_, _, is_right) in zip(scores, held_out, strict=True) if is_right]
    wrong = [score.steps[0].reward for score, (_, _, is_right) in zip(scores, held_out, strict=True) if not is_right]
    assert len(right) > 15 and len(wrong) > 15
    above = sum(good > bad for good in right for bad in wrong) / (len(right) * len(wrong))
    assert above > 0.95 and sum(right) / len(right) > sum(wrong) / len(wrong) + 0.5
