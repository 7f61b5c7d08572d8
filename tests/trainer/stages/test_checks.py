"""What cannot start is refused before anything runs: for its fields when a file is read, for the machine before a stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from verigym import cli
from verigym.envs import UsageError
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.language.environment import LanguageEnvironment
from verigym.trainer import preflight
from verigym.trainer.distributed.torchrun import LAUNCHED
from verigym.trainer.pipelines.pipeline import run_pipeline
from verigym.trainer.pipelines.plan import read_pipeline

ARITHMETIC: dict[str, Any] = {"environment": "arithmetic", "options": {"digits": 1}}
BASE: dict[str, Any] = {"name": "base", "kind": "scratch", "demonstrations": [ARITHMETIC], "texts": 20}


def write(folder: Path, *stages: dict[str, Any], **fields: Any) -> Path:
    path = folder / "recipe.yaml"
    whole = {"output": str(folder / "out"), "defaults": {"device": "cpu"}, "stages": [BASE, *stages], **fields}
    path.write_text(yaml.safe_dump(json.loads(json.dumps(whole)), sort_keys=False))  # without anchors
    return path


def grpo(**fields: Any) -> dict[str, Any]:
    return {"name": "rl", "kind": "grpo", "model": "stage:base", "sources": [ARITHMETIC], **fields}


def sample(**fields: Any) -> dict[str, Any]:
    return {"name": "rl", "kind": "sample", "model": "stage:base", "sources": [ARITHMETIC], "prompts": 4, **fields}


def evaluate(**fields: Any) -> dict[str, Any]:
    return {"name": "rl", "kind": "evaluate", "models": {"a": "stage:base"}, "sources": [ARITHMETIC], **fields}


@pytest.mark.parametrize(
    ("stage", "field", "message"),
    [
        (grpo(loss="sequence_reinforce"), "name", "field 'aggregation': sequence_reinforce is a loss of whole completions"),
        (grpo(loss="clippd"), "loss", "field 'loss': there is no loss 'clippd'; did you mean 'clipped'?"),
        (grpo(loss_options={"clip_hgih": 1}), "name", "field 'loss': clipped takes no option 'clip_hgih'"),
        (grpo(correction="tokn_masked"), "correction", "field 'correction': there is no correction 'tokn_masked'"),
        (grpo(advantage="groop"), "advantage", "field 'advantage': there is no advantage 'groop'"),
        (grpo(advantage="maxrl", overlong_cache=4), "sources", "source 'arithmetic': maxrl refuses rewards below 0"),
        (grpo(advantage="reinforce++", dynamic_sampling=True), "sources", "source 'arithmetic': its advantage compares"),
        (grpo(vllm_sleep=False), "vllm_sleep", "vllm_sleep is about engine vllm"),
        (grpo(sources=[{"environment": "arithmatic"}]), "sources", "source 'arithmatic': .*did you mean 'arithmetic'?"),
        (grpo(sources=[{"environment": "math"}]), "sources", "source 'math': environment 'math' generates no tasks"),
        (grpo(sources=[{"dataset": "math500", "split": "test", "eval_split": None}]), "sources", "is for evaluation only"),
        (grpo(sources=[{"dataset": "gsm8k", "split": "trian"}]), "sources", "has no split 'trian'; did you mean 'train'?"),
        (grpo(sources=[{**ARITHMETIC, "reward_scale": 3}]), "sources", "field 'reward_scale': advantage grpo is the same"),
        (sample(sources=[{**ARITHMETIC, "template": "thnik"}]), "sources", "did you mean 'think'?"),
        (sample(sources=[ARITHMETIC, ARITHMETIC]), "name", "two sources are called 'arithmetic'"),
        (evaluate(sources=[{**ARITHMETIC, "eval_split": None}]), "sources", "field 'sources': eval_split is null"),
        (evaluate(pickers={"a": {"environment": "procces"}}), "pickers", "'a': .*did you mean 'process'?"),
    ],
    ids=str,
)
def test_a_stage_that_cannot_start_is_refused_when_the_file_is_read(
    tmp_path: Path, stage: dict[str, Any], field: str, message: str
) -> None:
    path = write(tmp_path, stage)
    lines = path.read_text().splitlines()
    first = lines.index("- name: rl")
    line = next(n for n in range(first, len(lines)) if lines[n].lstrip("- ").startswith(f"{field}:")) + 1
    line += field == "sources"  # the first of them, on the line below
    pattern = rf"recipe\.yaml:{line}: (?:stage 'rl': )?.*{message}"
    with pytest.raises(UsageError, match=pattern):
        read_pipeline(path)
    assert not (tmp_path / "out").exists()


def test_what_a_later_stage_lacks_on_this_machine_is_said_before_the_first_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(self: Any) -> None:
        raise EnvironmentFailure("unavailable", "language identification needs a package")

    monkeypatch.setattr(LanguageEnvironment, "check", absent)
    path = write(tmp_path, grpo(), evaluate(name="held-out", sources=[{**ARITHMETIC, "add": {"language": {"weight": 0.1}}}]))
    assert cli.main(["pipeline", "run", str(path)]) == 2
    assert "stage 'held-out': source 'arithmetic': unavailable: language identification" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert cli.main(["pipeline", "run", str(path), "--until", "base"]) == 0, "what is not asked for may be missing"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engine": "vllm"}, "engine: vllm is not installed here"),
        ({"device": "cuda"}, "device: cuda was asked for, but torch sees no CUDA device"),
        ({"cuda_graphs": True}, "cuda_graphs: true needs device cuda"),
        ({"liger": True}, "liger: true needs device cuda"),
        ({"loggers": ["trackio"]}, "loggers: trackio was asked for, but cannot be imported"),
        ({"lora_rank": 4}, "lora_rank needs the package peft"),
        ({"optimizer": "adamw_8bit"}, "optimizer: adamw_8bit needs the package bitsandbytes"),
    ],
    ids=str,
)
def test_a_package_or_device_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], message: str
) -> None:
    for name in ("trackio", "peft", "bitsandbytes"):
        monkeypatch.setitem(__import__("sys").modules, name, None)  # as where it is not installed
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    pipeline = read_pipeline(write(tmp_path, grpo(**fields)))
    with pytest.raises(UsageError, match=f"stage 'rl': {message}"):
        run_pipeline(pipeline)
    assert not (tmp_path / "out").exists()


def test_a_local_file_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    source = {"dataset": "gsm8k", "data_dir": str(tmp_path / "data"), "eval_split": None}
    with pytest.raises(UsageError, match=r"stage 'rl': source 'gsm8k': there is no file .*data/gsm8k/train.jsonl.gz"):
        run_pipeline(read_pipeline(write(tmp_path, sample(sources=[source]))))


def test_training_data_of_an_evaluation_that_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path, evaluate(name="held-out", train_data=[str(tmp_path / "absent.jsonl")]))
    with pytest.raises(UsageError, match=r"stage 'held-out': field 'train_data': there is no file '.*absent.jsonl'"):
        run_pipeline(read_pipeline(path))
    assert not (tmp_path / "out").exists()


def test_until_looks_at_no_stage_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn = {"kind": "sft", "name": "learn", "model": "stage:base", "data": [str(tmp_path / "absent.jsonl")], "steps": 1}
    path = write(tmp_path, learn, evaluate(name="held-out", sources=[{**ARITHMETIC, "eval_split": None}]))
    assert cli.main(["pipeline", "run", str(path), "--until", "base"]) == 0
    told = capsys.readouterr()
    assert "base: done in" in told.out and "manifest: " in told.out and "error" not in told.err
    assert cli.main(["pipeline", "run", str(path), "--until", "base"]) == 0
    assert "base: unchanged" in capsys.readouterr().out
    assert cli.main(["pipeline", "run", str(path), "--until", "learn"]) == 2
    assert "stage 'learn': field 'data': there is no file" in capsys.readouterr().err
    assert cli.main(["pipeline", "run", str(path)]) == 2
    error_context = capsys.readouterr().err
    assert "stage 'held-out': source 'arithmetic': field 'sources': eval_split is null" in error_context


def test_torchrun_starts_no_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHED:
        monkeypatch.setenv(name, "2" if name == "WORLD_SIZE" else "1")
    with pytest.raises(UsageError, match="a pipeline runs in one process; start it without torchrun"):
        run_pipeline(read_pipeline(write(tmp_path, grpo())))


def test_an_environment_of_a_model_that_a_stage_makes_is_left_until_then(tmp_path: Path) -> None:
    source = {**ARITHMETIC, "add": {"reward_model": {"weight": 0.1, "options": {"model": "stage:rm"}}}}
    trained = {"name": "rm", "kind": "reward-model", "model": "stage:base", "data": [str(tmp_path / "pairs.jsonl")]}
    picked = evaluate(name="held-out", pickers={"rm": {"environment": "reward_model", "options": {"model": "stage:rm"}}})
    stages = read_pipeline(write(tmp_path, trained, grpo(sources=[source]), picked)).stages
    assert [set(stage.needs) for stage in stages] == [set(), {"base"}, {"base", "rm"}, {"base", "rm"}]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("lr: 0.1", r"pipeline.yaml:3: stage 'one': lr: unknown field; here: `learning_rate`"),
        ("num_train_epochs: 3", r"stage 'one': num_train_epochs: unknown field; here: `epochs`"),
        ("per_device_train_batch_size: 3", r"stage 'one': .*here: `batch_size`, examples an update"),
        ("max_seq_length: 3", r"stage 'one': .*here: `max_tokens`"),
        ("logging_steps: 3", r"stage 'one': .*every step is logged"),
        ("learning_rat: 0.1", r"pipeline.yaml:3: stage 'one': unknown field 'learning_rat'; did you mean 'learning_rate'\?"),
    ],
)
def test_names_of_other_trainers_are_known_in_all_stages(field: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    stage = f"name: one, kind: sft, model: some/model, demonstrations: [{{environment: arithmetic}}], {field}"
    path.write_text(f"output: out\nstages:\n  - {{{stage}}}\n")
    with pytest.raises(UsageError, match=said):
        read_pipeline(path)


def test_a_default_that_no_stage_has_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    stage = "name: one, kind: sft, model: some/model, demonstrations: [{environment: arithmetic}]"
    path.write_text(f"output: out\ndefaults: {{lr: 1}}\nstages:\n  - {{{stage}}}\n")
    with pytest.raises(
        UsageError, match=r"pipeline.yaml:2: no stage in this file has a field 'lr'; here: `learning_rate`; or leave it out"
    ):
        read_pipeline(path)
