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
import yaml

from verigym import cli
from verigym.envs.contract.schema import Message, Status
from verigym.trainer.credit.rows import credits_of
from verigym.trainer.models.codec import Codec
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.stages.sample_log import PromptSamples, Sample
from verigym.trainer.tasks.mixture import build_source

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
    assert found == (2 + 2 + 1 + 2, 8)


@pytest.mark.slow
def test_picks_by_hand(part: Any, capsys: pytest.CaptureFixture[str]) -> None:
    prm = part("prm")
    environment = part("process_parts.running_sums").RunningSums()
    prompt = environment.prompt("1+2=?", answer="3")

    def sampled(*numbers: int) -> PromptSamples:
        texts = [f"<think>1+2={n}</think>\\boxed{{{n}}}" for n in numbers]
        samples = tuple(Sample(text, 4, "stop", environment.score(prompt, text)) for text in texts)
        return PromptSamples(0, "sums", prompt.messages, prompt.key, {}, samples)

    # In the first task the pick is right and the majority wrong, in the second the other way round.
    counts = prm.picks([sampled(3, 4, 4), sampled(3, 3, 5)], [[0.9, 0.1, 0.2], [0.2, None, 0.3]])
    means = {name: figure[0] for name, figure in prm.table([counts]).items()}
    assert means["random pick (avg@3)"] == 0.5 and means["pass@3"] == 1
    assert means["best of 3 by the least step"] == 0.5 and means["maj@3"] == 0.5
    assert means["majority of 3, votes weighted"] == 0.5 and means["best, less the majority"] == 0
    assert means["random one of the different texts"] == 0.5
    assert means["of a right and a wrong one, prefers right"] == 0.5  # 2 of 2 pairs, then 0 of 2
    other = prm.picks([sampled(3, 4, 4)], [[0.9, 0.1, 0.2]])
    both = prm.table([counts, other])  # a seed counts as much as another, however many its tasks
    assert both["best of 3 by the least step"][0] == 0.75
    assert prm.by_t([counts]) == {}
    assert prm.by_t([counts, other])["maj@3"] == pytest.approx([0.25 - 3.177, 0.25 + 3.177], abs=1e-3)
    all_wrong = prm.table([prm.picks([sampled(4, 4, 4)], [[0.9, 0.1, 0.2]]), counts])
    assert [name for name, figure in all_wrong.items() if figure is None] == ["of a right and a wrong one, prefers right"]
    prm.show("no pair in one of the seeds", all_wrong)
    assert "prefers right  nothing to count" in capsys.readouterr().out


def test_a_recipe_gets_its_seed_and_nothing_else(part: Any, tmp_path: Path) -> None:
    prm = part("prm")
    recipe = yaml.safe_load(prm.RECIPE.read_text())
    paths = [prm.seeded(prm.RECIPE, seed, tmp_path) for seed in (0, 5)]
    assert [yaml.safe_load(path.read_text()) for path in paths] == [
        recipe | {"seed": seed, "output": str(tmp_path / f"seed{seed}")} for seed in (0, 5)
    ]
    first, second = ({stage.name: stage.fields["seed"] for stage in read_pipeline(path).stages} for path in paths)
    assert all(first[name] != second[name] for name in first)  # all that is random differs, models and cold starts too


def test_newton_finds_what_makes_the_gradient_nothing(part: Any) -> None:
    study = part("reward_model")
    differences = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).double().numpy() + [0.5, 0, -0.2, 0]
    weight = study.newton(differences)
    tensor = torch.tensor(weight, requires_grad=True)
    loss = -torch.nn.functional.logsigmoid(torch.tensor(differences) @ tensor).mean() + study.RIDGE * (tensor**2).sum() / 2
    loss.backward()
    assert float(tensor.grad.abs().max()) < 1e-8 and weight[0] > 0.3 > abs(weight[1])


def test_no_distance_from_oneself(part: Any, tiny_model: Any, tiny_tokenizer: Any) -> None:
    study = part("distillation")
    codec = Codec(tiny_tokenizer, tiny_model.generation_config)
    score = part("process_parts.running_sums").RunningSums().score
    prompt = part("process_parts.running_sums").RunningSums().prompt("1+2=?", answer="3")
    samples = tuple(Sample(text, 4, "stop", score(prompt, text)) for text in ("1+2=3", "\\boxed{3}"))
    found = [PromptSamples(0, "sums", (Message(role="user", content="1+2=?"),), prompt.key, {}, samples)] * 2
    other = copy.deepcopy(tiny_model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert study.divergence(tiny_model, tiny_model, codec, found, "forward")[0] == pytest.approx(0, abs=1e-4)
    assert study.divergence(other, tiny_model, codec, found, "reverse")[0] > 1e-3


@pytest.fixture
def study(part: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(BENCHMARKS)
    return (BENCHMARKS / "process_parts/supervision.yaml").read_text()


def test_the_arms_of_the_study_from_yaml_differ_in_their_reward_alone(study: str) -> None:
    pipeline = read_pipeline(Path("process_parts/supervision.yaml"))
    stages = {stage.name: pipeline.config(stage, Path("x"), dict.fromkeys(stage.needs, Path("y"))) for stage in pipeline.stages}
    for seed in range(3):
        arms = [stages[f"{arm}-{seed}"].model_dump(exclude={"sources", "seed"}) for arm in ("outcome", "process", "both")]
        assert [arm.pop("step_rewards") for arm in arms] == [False, True, True]
        assert arms[0] == arms[1] == arms[2]
    for arm in ("outcome", "process", "both"):
        config: Any = stages[f"{arm}-0"]
        sources = [build_source(source, 0, 1) for source in config.sources]
        assert sources[0].train(3).text == build_source(stages["outcome-0"].sources[0], 0, 1).train(3).text  # type: ignore[attr-defined]
        credit = credits_of(config, {source.label: source.environment for source in sources})["sums"]
        assert [(term.part, term.weight) for term in credit.terms if term.steps] == {
            "outcome": [], "process": [("", 1.0)], "both": [("process", 0.5)],
        }[arm]  # fmt: skip


@pytest.mark.slow
def test_a_short_run_from_yaml(study: str, part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = (
        study.replace("steps: 320", "steps: 2")
        .replace("steps: 80", "steps: 1")
        .replace("samples: 4", "samples: 2\n    prompts: 3")
    )
    (tmp_path / "short.yaml").write_text(short.replace("../runs/process_supervision", str(tmp_path / "out")))
    assert cli.main(["pipeline", "run", str(tmp_path / "short.yaml"), "--until", "held-out-0"]) == 0
    found = part("process_supervision").made_by_pipeline(tmp_path / "out")
    assert sorted(found) == ["both", "cold", "outcome", "process"]
    assert all(len(rows) == 3 and len(texts) == 2 for rows in found.values() for _, texts, _ in rows)
    assert all("process" in score.components for _, _, scores in found["both"] for score in scores)


@pytest.mark.slow
def test_a_short_run(part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = "process_supervision --seeds 0 --steps 1 --held-out 2 --policy-steps 2 --output"
    monkeypatch.setattr(sys, "argv", [*command.split(), str(tmp_path)])
    part("process_supervision").main()
    assert {"cold start", "outcome", "gated", "steps"} <= json.loads(capsys.readouterr().out.splitlines()[-1]).keys()


SMALL = {
    "scratch": {"hidden_size": 32, "heads": 2, "layers": 1, "intermediate_size": 64},
    "sft": {"steps": 70, "demonstration_count": 200, "learning_rate": 2e-2},
    "sample": {"prompts": 12, "samples": 8},
    "step-labels": {"prompts": 6, "rollouts": 2},
    "prm": {"steps": 2, "batch_size": 4, "warmup_steps": 1},
    "reward-model": {"steps": 2, "batch_size": 4, "warmup_steps": 1, "held_out_share": 0.4},
    "grpo": {"steps": 1, "prompts_per_step": 2, "group_size": 4},
    "evaluate": {"prompts": 3, "samples": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "keys"), [("prm", {"by_seed", "picks", "picks_by_t"}), ("reward_model", {"pairs", "policies"})]
)
def test_a_shrunken_recipe_gives_the_table(
    part: Any, study: str, keys: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = yaml.safe_load((BENCHMARKS.parent / f"recipes/{study}.yaml").read_text())
    for stage in recipe["stages"]:
        stage.update(SMALL.get(stage["kind"], {}))
    easy = {"largest": 3, "terms": [2, 2]}
    text = json.dumps(recipe).replace('{"largest": 9}', json.dumps(easy))
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", [study, "--output", str(tmp_path / "out"), "--recipe", str(path)])
    if study == "prm":
        sys.argv += ["--seeds", "0,1"]
    part(study).main()
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert keys <= figures.keys()
    if study == "prm":
        assert list(figures["by_seed"]) == ["0", "1"]
        assert all({"steps", "labels", "picks"} == set(of) for of in figures["by_seed"].values())
        gains = [of["picks"]["best, less a random pick"][0] for of in figures["by_seed"].values()]
        assert figures["picks"]["best, less a random pick"][0] == pytest.approx(sum(gains) / 2, abs=1.1e-3)
    if study == "reward_model":
        assert {"trained: all", "trained: head", "logistic regression by hand", "rule: longer"} <= figures["pairs"].keys()
        assert set(figures["policies"]) == {"policy", "rl-learnt", "rl-learnt-kl", "rl-verifier"}
