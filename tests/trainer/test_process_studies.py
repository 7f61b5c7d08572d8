"""The studies of process rewards and of distillation: their task, their counts, and one short run of each."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from verigym.envs.schema import Message, Status
from verigym.trainer.stages.sampled import Sample, Sampled
from verigym.trainer.tokens import Codec

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("modulus", [0, 2])
def test_a_demonstration_is_right_and_derived(part: Any, modulus: int) -> None:
    sums = part("process_parts.running_sums")
    environment = sums.RunningSums(largest=9, modulus=modulus)
    for index in range(20):
        prompt, text = environment.demonstration("train", 0, index)
        assert environment.score(prompt, text).status is Status.CORRECT
        assert sums.derived(prompt, text)


@pytest.mark.parametrize(
    ("thoughts", "derived"),
    [
        ("3+4=7,7+5=12,12+1=13", True),
        ("3+4=8,8+5=13,13+1=14", False),
        ("3+4=7,7+5=12", False),
        ("12+1=13", False),
        ("3+4=7,7+5=12,12+1=13,13+0=13", False),
    ],
)
def test_only_the_whole_derivation_is_one(part: Any, thoughts: str, derived: bool) -> None:
    sums = part("process_parts.running_sums")
    prompt = sums.RunningSums(modulus=2).prompt("3+4+5+1=? mod 2", answer="1")
    assert sums.derived(prompt, f"<think>{thoughts}</think>\\boxed{{1}}") is derived


def test_right_for_the_wrong_reason_is_counted(part: Any) -> None:
    study = part("process_supervision")
    environment = part("process_parts.running_sums").RunningSums(modulus=2)
    prompt = environment.prompt("3+4+5+1=? mod 2", answer="1")
    texts = [
        "<think>3+4=7,7+5=12,12+1=13</think>\\boxed{1}",
        "<think>3+4=9,9+5=14,14+1=15</think>\\boxed{1}",  # right by a wrong step
        "<think>12+1=13</think>\\boxed{1}",  # what it states holds, and it is no derivation
        "<think>3+4=7,7+5=12,12+1=14</think>\\boxed{0}",
    ]
    found = study.figures([(prompt, texts, [environment.score(prompt, text) for text in texts])] * 2)
    means = {name: mean for name, (mean, _, _) in found.items()}
    assert means == {"right": 0.75, "wrong_reason": 0.333, "not_derived": 0.667, "fully_right": 0.25}


def test_steps_get_their_rewards_and_the_answer_the_last(part: Any) -> None:
    study = part("process_supervision")
    stepwise = study.arm("steps")
    prompt = stepwise.prompt_at("train", 0, 3)
    assert prompt.text == study.arm("outcome").prompt_at("train", 0, 3).text
    wrong = str(1 - int(stepwise.reference(prompt).answer))
    steps = stepwise.score(prompt, f"<think>3+4=7,7+5=13</think>\\boxed{{{wrong}}}").steps
    assert [step.reward for step in steps] == [1.0, 0.0, 0.0]
    gated = study.arm("gated")
    prompt = gated.prompt_at("train", 0, 3)
    right = stepwise.reference(stepwise.prompt_at("train", 0, 3)).answer
    assert gated.score(prompt, f"<think>3+4=7</think>\\boxed{{{right}}}").reward == 1
    assert gated.score(prompt, f"<think>3+4=8</think>\\boxed{{{right}}}").reward == 0


def test_how_often_the_right_one_of_two_is_preferred(part: Any) -> None:
    prm = part("prm")
    found = prm.preference([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
    assert (found.correct, found.n) == (2 + 2 + 1 + 2, 8)


def test_labels_are_read_back_for_the_same_solutions_alone(part: Any, tmp_path: Path) -> None:
    prm = part("prm")
    prompt = part("process_parts.running_sums").RunningSums().prompt("3+4+5=?", answer="12")
    text = "<think>3+4=7,7+5=12</think>\\boxed{12}"
    spans = tuple(prm.split_steps(text, prm.STEPS))
    outcomes = [prm.StepOutcomes(prompt, text, spans, (8, 3, 1), (8, 8, 1))]
    path = tmp_path / "labels.jsonl"
    assert prm.read_kept(path, [(prompt, text)]) is None
    prm.keep(path, outcomes)
    assert prm.read_kept(path, [(prompt, text)]) == outcomes
    assert prm.read_kept(path, [(prompt, text + " ")]) is None


def test_no_distance_from_oneself(part: Any, tiny_model: Any, tiny_tokenizer: Any) -> None:
    study = part("distillation")
    codec = Codec(tiny_tokenizer, tiny_model.generation_config)
    score = part("process_parts.running_sums").RunningSums().score
    prompt = part("process_parts.running_sums").RunningSums().prompt("1+2=?", answer="3")
    samples = tuple(Sample(text, 4, "stop", score(prompt, text)) for text in ("1+2=3", "\\boxed{3}"))
    found = [Sampled(0, "sums", (Message(role="user", content="1+2=?"),), prompt.key, {}, samples)] * 2
    other = copy.deepcopy(tiny_model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert study.divergence(tiny_model, tiny_model, codec, found, "forward")[0] == pytest.approx(0, abs=1e-4)
    assert study.divergence(other, tiny_model, codec, found, "reverse")[0] > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "arguments", "keys"),
    [
        (
            "prm",
            "--tasks 4 --held-out 3 --rollouts 2 --train-steps 2 --base-steps 1 --labels hard soft",
            ("picks", "steps_hard", "steps_soft"),
        ),
        ("process_supervision", "--seeds 0 --steps 1 --held-out 2", ("cold start", "outcome", "gated", "steps")),
    ],
    ids=["prm", "process_supervision"],
)
def test_a_short_run(
    part: Any,
    study: str,
    arguments: str,
    keys: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = [study, "--output", str(tmp_path), "--policy-steps", "2", *arguments.split()]
    monkeypatch.setattr(sys, "argv", command)
    part(study).main()
    assert {*keys} <= json.loads(capsys.readouterr().out.splitlines()[-1]).keys()
