"""Reward models are trained, stopped, loaded by the environment, and chained in a pipeline."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from verigym import cli
from verigym.envs import EnvironmentFailure, UsageError, load
from verigym.envs.contract.schema import Message
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.pipelines.pipeline import run_pipeline
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.pipelines.stage_kinds import KINDS
from verigym.trainer.reward_models.config import PrmConfig, RewardModelConfig, StepLabelsConfig
from verigym.trainer.reward_models.process_training import train_prm
from verigym.trainer.reward_models.step_labelling import label_steps
from verigym.trainer.reward_models.training import train_reward_model
from verigym.trainer.stages import step_run as run_module
from verigym.trainer.tasks.mixture import build_source

Fields = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained language model that can read digits and words."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = scratch_tokenizer(["Tell of 12 a kind and a rude word, thanks a lot, go away"], 300)
    scratch_qwen3(tokenizer, hidden_size=32, layers=1, heads=2, intermediate_size=64, seed=4).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def fields(base: Path) -> Fields:
    def made(output: Path, **more: Any) -> dict[str, Any]:
        quick = {"device": "cpu", "threads": 1, "learning_rate": 1e-2, "warmup_steps": 2, "loggers": [], "seed": 3}
        return {"model": str(base), "output": str(output), **quick, **more}

    return made


def style_pairs(path: Path, count: int = 80) -> Path:
    """Kind answers are preferred to rude ones, whichever is longer."""
    rows = [
        {
            "prompt": f"Tell of {n}.",
            "chosen": f"{n}, thanks a lot" + " and a word" * (n % 2),
            "rejected": f"{n}, go away" + " and a word" * (n % 3),
            "margin": 0.5,
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labels(path: Path, count: int = 40) -> Path:
    """A step is right where it says `kind`."""
    rows = [
        {"prompt": f"Tell of {n}.", "steps": ["a kind word", "a rude word"][:: 1 if n % 2 else -1], "right": [n % 2, 1 - n % 2],
         "scored": [1, 1], "split": "lines"} for n in range(count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def stop_once_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = run_module.StepRun._step

    def stopping(self: Any, number: int, *more: Any) -> dict[str, float]:
        if number == step and not self.resumed:
            signal.raise_signal(signal.SIGINT)
        return real(self, number, *more)

    monkeypatch.setattr(run_module.StepRun, "_step", stopping)


@pytest.mark.parametrize("trained", ["all", "head"])
def test_it_learns_a_style_and_the_environment_agrees(tmp_path: Path, fields: Fields, base: Path, trained: str) -> None:
    data = style_pairs(tmp_path / "pairs.jsonl")
    rate = {"all": 1e-2, "head": 0.1}[trained]
    config = RewardModelConfig(
        **fields(tmp_path / "out", data=[str(data)], held_out_share=0.3, epochs=5, trained=trained, eval_every=2, centre=0.01)
        | {"learning_rate": rate}
    )
    final = train_reward_model(config)
    looks = [row for row in read_rows(tmp_path / "out/metrics.jsonl") if row["kind"] == "eval"]
    assert looks[-1]["accuracy"] > 0.9 and 0.2 < looks[-1]["longer/accuracy"] < 0.8
    assert looks[-1]["loss"] < 0.6 * looks[0]["loss"] and looks[-1]["margin"] > 0.5
    record = json.loads((final / "verigym.json").read_text())
    assert record["options"] == {"reads": "answer"} and record["training"]["held_out"]["accuracy"][0] > 0.9
    assert str(tmp_path) not in json.dumps(record)
    env = load("reward_model", model=str(final), device="cpu")
    prompt = env.prompt("Tell of 200.")
    kind, rude = (env.score(prompt, text).components["output"] for text in ("200, thanks a lot", "200, go away now"))
    assert kind > rude
    body, trained_body = load_file(base / "model.safetensors"), load_file(final / "model.safetensors")
    same = [torch.equal(tensor, body[name]) for name, tensor in trained_body.items() if name in body]
    assert all(same) if trained == "head" else not any(same)


def test_training_scores_as_the_environment_does(tmp_path: Path, fields: Fields, assert_same: Any) -> None:
    from verigym.trainer.reward_models.pair_model import RewardModelRun, outputs, tokenized
    from verigym.trainer.reward_models.pairs import Preference

    data = style_pairs(tmp_path / "pairs.jsonl", 12)
    config = RewardModelConfig(**fields(tmp_path / "out", data=[str(data)], reads="whole", steps=2, held_out_share=0.2))
    final = train_reward_model(config)
    run = RewardModelRun(
        RewardModelConfig(**{**config.model_dump(), "model": str(final), "output": tmp_path / "again"}), {}, ""
    )
    texts = ["<think>a kind word</think> thanks", "  go away\n\n"]
    pair = Preference((Message(role="user", content="Tell of 5."),), *texts)
    (tokens,), left_out = tokenized(run.config, run, [pair])
    with torch.no_grad():
        ours = outputs(run, [tokens.chosen, tokens.rejected])
    env = load("reward_model", model=str(final), device="cpu", reads="whole")
    theirs = [score.components["output"] for score in env.score_group(env.prompt("Tell of 5."), texts)]
    torch.testing.assert_close(ours, torch.tensor(theirs), rtol=1e-5, atol=1e-6)
    assert left_out.too_long == left_out.unreadable == left_out.alike == 0
    with pytest.raises(EnvironmentFailure, match="was trained with reads='whole', and the environment has reads='answer'"):
        load("reward_model", model=str(final), device="cpu").check()


@pytest.mark.parametrize("kind", ["reward-model", "prm"])
def test_stopped_at_a_step_it_ends_with_the_same_bytes(
    tmp_path: Path, fields: Fields, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "prm":
        data, make, train = labels(tmp_path / "labels.jsonl", 14), PrmConfig, train_prm
    else:
        data, make, train = style_pairs(tmp_path / "pairs.jsonl", 14), RewardModelConfig, train_reward_model
    more = {"data": [str(data)], "steps": 5, "batch_size": 4, "checkpoint_every": 2, "eval_every": 2, "held_out_share": 0.3}
    whole = train(make(**fields(tmp_path / "whole", **more)))
    stop_once_at(2, monkeypatch)
    config = make(**fields(tmp_path / "halved", **more))
    with pytest.raises(Interrupted, match="stopped after step 3 of 5"):
        train(config)
    assert not (tmp_path / "halved/final").exists()
    halved = train(config)
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in halved.iterdir()) and "verigym.json" in names
    assert all((whole / name).read_bytes() == (halved / name).read_bytes() for name in names)
    kept = [
        [{name: value for name, value in row.items() if name != "step_s"} for row in read_rows(folder / "metrics.jsonl")]
        for folder in (tmp_path / "whole", tmp_path / "halved")
    ]
    assert kept[0] == kept[1]


def test_how_a_batch_is_cut_changes_nothing(tmp_path: Path, fields: Fields) -> None:
    data = style_pairs(tmp_path / "pairs.jsonl", 12)
    more = {"data": [str(data)], "steps": 2, "batch_size": 6, "held_out_share": 0.0, "eval_every": 0}
    weights = []
    for budget in (8192, 1):
        final = train_reward_model(RewardModelConfig(**fields(tmp_path / str(budget), micro_batch_tokens=budget, **more)))
        weights.append(load_file(final / "model.safetensors"))
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["reward-model", "prm"])
def test_in_bfloat16_and_without_kept_activations(tmp_path: Path, fields: Fields, kind: str) -> None:
    data = style_pairs(tmp_path / "pairs.jsonl", 12) if kind == "reward-model" else labels(tmp_path / "labels.jsonl", 12)
    make, train = (RewardModelConfig, train_reward_model) if kind == "reward-model" else (PrmConfig, train_prm)
    quick = {"data": [str(data)], "steps": 2, "held_out_share": 0.3}
    found = []
    for number, more in enumerate(({}, {"gradient_checkpointing": True}, {"dtype": "bf16"})):
        final = train(make(**fields(tmp_path / str(number), **quick, **more)))
        found.append(load_file(final / "model.safetensors"))
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())
    assert not all(torch.equal(tensor, found[2][name]) for name, tensor in found[0].items())
    assert all(tensor.dtype == torch.float32 and bool(torch.isfinite(tensor).all()) for tensor in found[2].values())


def test_a_classifier_of_two_classes_is_no_reward_model(tmp_path: Path, fields: Fields, base: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=2)
    model.save_pretrained(tmp_path / "two")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "two")
    config = fields(tmp_path / "out", data=[str(style_pairs(tmp_path / "pairs.jsonl", 4))], steps=1)
    with pytest.raises(UsageError, match="size mismatch|mismatched"):
        train_reward_model(RewardModelConfig(**{**config, "model": str(tmp_path / "two")}))


def test_a_reward_model_goes_on_with_the_head_that_it_has(tmp_path: Path, fields: Fields) -> None:
    data = style_pairs(tmp_path / "pairs.jsonl", 8)
    first = train_reward_model(RewardModelConfig(**fields(tmp_path / "a", data=[str(data)], steps=1)))
    frozen = {"learning_rate": 1e-30, "steps": 1, "seed": 99}
    again = train_reward_model(RewardModelConfig(**fields(tmp_path / "b", data=[str(data)]) | {"model": str(first)} | frozen))
    ours, theirs = load_file(again / "model.safetensors"), load_file(first / "model.safetensors")
    assert all(torch.equal(tensor, ours[name]) for name, tensor in theirs.items())


def test_pairs_that_cannot_be_judged_are_counted(tmp_path: Path, fields: Fields) -> None:
    rows = [
        {"prompt": "a", "chosen": "kind", "rejected": "rude"},
        {"prompt": "b", "chosen": "kind", "rejected": "<think>rude"},
        {"prompt": "c", "chosen": "<think>kind</think>a lot", "rejected": "<think>rude</think>a lot"},
        {"prompt": "d", "chosen": "kind " * 50, "rejected": "rude"},
    ]
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = fields(tmp_path / "out", data=[str(data)], held_out_share=0, steps=1, max_tokens=40)
    final = train_reward_model(RewardModelConfig(**config))
    training = json.loads((final / "verigym.json").read_text())["training"]
    assert training["left_out"]["train"] == {"too_long": 1, "unreadable": 1, "alike": 1}
    assert training["pairs"]["train"] == 1 and training["held_out"] is None
    data.write_text(json.dumps(rows[1]) + "\n")
    with pytest.raises(UsageError, match="none of 1 pairs can be learnt from"):
        train_reward_model(RewardModelConfig(**{**config, "output": tmp_path / "none"}))


def test_held_out_files_share_no_prompt(tmp_path: Path, fields: Fields) -> None:
    data = style_pairs(tmp_path / "pairs.jsonl", 4)
    config = RewardModelConfig(**fields(tmp_path / "out", data=[str(data)], held_out_data=[str(data)], steps=1))
    with pytest.raises(UsageError, match="held_out_data: 4 of its prompts are in data too"):
        train_reward_model(config)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"lora_rank": 4}, "lora_rank"),
        ({"pack_tokens": 4}, "pack_tokens"),
        ({"trained": "head", "gradient_checkpointing": True}, "saves nothing where the head alone is trained"),
        ({"held_out_data": ["x"], "held_out_share": 0.2}, "held_out_share is about data"),
        ({"steps": 1, "epochs": 2}, "give one of them"),
        ({"data": []}, "at least 1 item"),
    ],
)
def test_settings_without_effect_are_refused(tmp_path: Path, fields: Fields, more: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RewardModelConfig(**fields(tmp_path, **{"data": ["x"], **more}))


def test_a_process_reward_model_learns_and_the_environment_loads_it(tmp_path: Path, fields: Fields) -> None:
    data = labels(tmp_path / "labels.jsonl")
    more = {"data": [str(data)], "held_out_share": 0.3, "epochs": 8, "batch_size": 8, "system": "", "eval_every": 5}
    final = train_prm(PrmConfig(**fields(tmp_path / "out", **more)))
    record = json.loads((final / "verigym.json").read_text())
    assert record["options"] == {"kind": "qwen", "split": "lines", "system": ""}
    held_out = record["training"]["held_out"]
    assert held_out["accuracy"][0] == 1.0 and held_out["majority/accuracy"][0] == 0.5
    env = load("process", kind="qwen", model=str(final), split="lines", system="", device="cpu")
    steps = env.score(env.prompt("Tell of 900."), "a kind word\na rude word").steps
    assert steps[0].reward > 0.5 > steps[1].reward
    for options, message in (({"split": "lines"}, "system=''"), ({"system": ""}, "split='lines'")):
        with pytest.raises(EnvironmentFailure, match=f"was trained with {message}"):
            load("process", kind="qwen", model=str(final), device="cpu", **options).check()


def test_a_damaged_record_is_no_pass(tmp_path: Path, fields: Fields) -> None:
    final = train_prm(PrmConfig(**fields(tmp_path / "out", data=[str(labels(tmp_path / "l.jsonl", 4))], steps=1)))
    for text in ("{", "[]", "{}", '{"options": {"nothing": 1}}'):
        (final / "verigym.json").write_text(text)
        with pytest.raises(EnvironmentFailure, match="is no record of options"):
            load("process", kind="qwen", model=str(final), split="lines", device="cpu").check()


SUMS = {"environment": "running_sums", "options": {"largest": 3, "terms": [2, 3]}}


def test_labelling_goes_on_where_it_was_stopped(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"device": "cpu", "threads": 1, "workers": 0, "max_new_tokens": 6, "prompts_at_a_time": 3, "split": ["1", "2"]}
    made = {"model": str(base), "sources": [SUMS], "prompts": 8, "rollouts": 2, "solutions": 2, **quick}
    whole = label_steps(StepLabelsConfig(output=tmp_path / "whole", **made))
    rows = [json.loads(line) for line in whole.read_text().splitlines()]
    counts = json.loads((tmp_path / "whole/summary.json").read_text())["counts"]["all"]
    assert counts["prompts"] + counts["prompts_drawn_again"] == 8 and counts["unscored"] == 0
    assert counts["rollouts"] == sum(sum(row["scored"]) for row in rows)
    assert all(row["scored"] == [2] * (len(row["steps"]) - 1) + [1] and row["split"] == ["1", "2"] for row in rows)
    config = StepLabelsConfig(output=tmp_path / "halved", **made)
    from verigym.trainer.reward_models import step_labelling

    real = step_labelling._label_block

    def stopping(*arguments: Any) -> Any:
        if arguments[-1] == 3:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(step_labelling, "_label_block", stopping)
        with pytest.raises(Interrupted, match="stopped after 6 of"):
            label_steps(config)
    log = tmp_path / "halved/outcomes.jsonl"
    log.write_bytes(log.read_bytes() + b'{"number": 6, "sou')  # a kill within a write
    assert label_steps(config).read_bytes() == whole.read_bytes()
    with pytest.raises(UsageError, match="set `output` to a new folder"):
        label_steps(StepLabelsConfig(output=tmp_path / "halved", **{**made, "rollouts": 3}))


def test_what_the_verifier_failed_on_is_counted_and_no_label(tmp_path: Path, base: Path) -> None:
    config = StepLabelsConfig(
        output=tmp_path, model=str(base), sources=[{"environment": "broken_sums:BrokenSums"}], prompts=3, rollouts=2,
        device="cpu", threads=1, workers=0, max_new_tokens=4, split=["1", "2"],
    )  # fmt: skip
    with pytest.raises(UsageError, match="no step has a label"):
        label_steps(config)
    counts = json.loads((tmp_path / "summary.json").read_text())["counts"]["all"]
    assert counts["unscored"] > 0 == counts["rollouts"] and counts["steps_without_a_label"] == counts["steps"] > 0


def test_a_source_graded_by_another_environment(tmp_path: Path, fields: Fields) -> None:
    from verigym.trainer.config.run import SourceConfig

    data = style_pairs(tmp_path / "pairs.jsonl", 6)
    final = train_reward_model(RewardModelConfig(**fields(tmp_path / "out", data=[str(data)], steps=1)))
    judge = {"environment": "reward_model", "options": {"model": str(final), "device": "cpu"}}
    own = build_source(SourceConfig(**SUMS), 0, 2)
    source = build_source(SourceConfig(**SUMS, graded_by=judge, format={}), 0, 2)
    task = source.train(5)
    assert task.messages == own.train(5).messages and [one.messages for one in source.held_out] == [
        one.messages for one in own.held_out
    ]
    gated = source.environment.score(task, "<think>a</think>\\boxed{3}").reward
    assert source.environment.name == "format>reward_model" and gated not in (None, 0, 1)
    assert source.environment.score(task, "kind").reward == 0
    with pytest.raises(UsageError, match="answer"):
        build_source(SourceConfig(**SUMS, graded_by={"environment": "math"}), 0, 2)


PIPELINE = """
output: {output}
seed: 0
shared:
  tasks: &tasks [&sums {{environment: running_sums, options: {{largest: 3, terms: [2, 2]}}}}]
  rm: &rm {{environment: reward_model, options: {{model: stage:rm, reads: whole, device: cpu}}}}
  ends: &ends [",", "</think>"]
  prm: &prm {{environment: process, options: {{kind: qwen, model: stage:prm, split: *ends, device: cpu}}}}
  pickers: &pickers {{pickers: {{rm: *rm, prm: *prm}}}}
  size: &size {{hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}}
  sft: &sft {{learning_rate: 2.0e-2, eval_every: 0}}
  rl: &rl {{steps: 1, prompts_per_step: 2, group_size: 4, eval_prompts: 2}}
defaults: {{device: cpu, threads: 1, workers: 0, max_new_tokens: 24, loggers: [], warmup_steps: 2}}
stages:
  - {{name: base, kind: scratch, demonstrations: *tasks, texts: 20, vocabulary: 300, <<: *size}}
  - {{name: cold, kind: sft, model: "stage:base", demonstrations: *tasks, demonstration_count: 100, steps: 70, <<: *sft}}
  - {{name: samples, kind: sample, model: "stage:cold", sources: *tasks, prompts: 12, samples: 8, keep: best, at_most: null}}
  - {{name: pairs, kind: pairs, data: ["stage:samples"]}}
  - {{name: rm, kind: reward-model, model: "stage:cold", data: ["stage:pairs"], reads: whole, steps: 2}}
  - {{name: rl, kind: grpo, model: "stage:cold", sources: [{{<<: *sums, graded_by: *rm}}], <<: *rl}}
  - {{name: labels, kind: step-labels, model: "stage:cold", sources: *tasks, prompts: 4, rollouts: 2, split: *ends}}
  - {{name: prm, kind: prm, model: "stage:cold", data: ["stage:labels"], held_out_share: 0, steps: 2}}
  - {{name: held-out, kind: evaluate, models: {{rl: "stage:rl"}}, sources: *tasks, prompts: 2, samples: 2, <<: *pickers}}
"""


@pytest.mark.slow
def test_from_samples_to_reinforcement_learning_on_the_model_from_one_file(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(PIPELINE.format(output=tmp_path / "out"))
    states = {state.stage.name: state for state in run_pipeline(read_pipeline(path))}
    figures = {name: state.record["figures"] for name, state in states.items() if state.record}
    assert figures["pairs"]["pairs"] >= 2 and figures["labels"]["unscored"] == 0 and figures["rl"]["steps"] == 1
    record = states["rl"].record
    assert record and any(name.endswith("(tasks)") for name in record["inputs"]["graders"])
    report = json.loads((Path(states["held-out"].record["product"])).read_text())  # type: ignore[index]
    assert {"best-of by rm@2", "best-of by prm@2"} <= set(report["models"]["rl"]["running_sums"]["figures"])
    lines: list[str] = []
    run_pipeline(read_pipeline(path), tell=lines.append)
    assert all(": unchanged, " in line for line in lines)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'model: "stage:cold", sources: [',
            'model: "stage:rm", sources: [',
            "takes the model of a stage of kind .*; stage 'rm' is of kind 'reward-model'",
        ),
        (
            "options: {{model: stage:rm,",
            "options: {{model: stage:cold,",
            "takes the reward model of a stage of kind reward-model or prm; stage 'cold' is of kind 'sft'",
        ),
        (
            'data: ["stage:pairs"]',
            'data: ["stage:cold"]',
            "field 'data' takes the data of a stage of kind .*; stage 'cold' is of kind 'sft' and makes a model",
        ),
    ],
)
def test_a_stage_in_the_wrong_place_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "recipe.yaml"
    assert old in PIPELINE
    path.write_text(PIPELINE.replace(old, new).format(output=tmp_path / "out"))
    with pytest.raises(UsageError, match=message):
        read_pipeline(path)


def test_the_commands(tmp_path: Path, fields: Fields, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"prompt": f"Tell of {n}.", "completion": text, "reward": reward}
        for n in range(6)
        for text, reward in (("thanks", 1), ("away", 0))
    ]
    graded = tmp_path / "graded.jsonl"
    graded.write_text("".join(json.dumps(row) + "\n" for row in rows))
    quick = {"device": "cpu", "threads": 1, "workers": 0, "max_new_tokens": 4, "split": ["1", "2"], "prompts": 3, "rollouts": 1}
    stages: dict[str, dict[str, Any]] = {
        "pairs": {"output": str(tmp_path / "pairs"), "data": [str(graded)]},
        "reward-model": fields(tmp_path / "rm", data=[str(tmp_path / "pairs/pairs.jsonl")], steps=3),
        "step-labels": {"output": str(tmp_path / "labels"), "model": str(base), "sources": [SUMS], **quick},
        "prm": fields(tmp_path / "prm", data=[str(tmp_path / "labels/labels.jsonl")], held_out_share=0, steps=3),
    }
    for command, settings in stages.items():
        path = tmp_path / f"{command}.yaml"
        path.write_text(yaml.safe_dump(settings))
        more = ["steps=1"] if "steps" in settings else []
        assert cli.main([command, "--config", str(path), *more]) == 0, capsys.readouterr().err
        assert "made: " in capsys.readouterr().out
    assert len([row for row in read_rows(tmp_path / "rm/metrics.jsonl") if row["kind"] == "train"]) == 1
    assert cli.main(["prm", "--config", str(tmp_path / "prm.yaml"), "step=1"]) == 2
    assert "unknown field 'step'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("page", "name"),
    [("reward_model", "pairs"), ("reward_model", "reward-model"), ("process", "step-labels"), ("process", "prm")],
)
def test_the_examples_of_the_pages_are_right(page: str, name: str) -> None:
    text = (Path(__file__).parents[3] / f"docs/{page}.md").read_text()
    (example,) = re.findall(rf"<!-- example: {name} -->\n```yaml\n(.*?)```", text, re.DOTALL)
    assert f"verigym {name} --config" in example
    KINDS[name].config_type().model_validate(yaml.safe_load(example))
