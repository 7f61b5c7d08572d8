"""Pipelines: mistakes are found before anything runs, what has not changed is skipped, what has is made again."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from verigym import cli
from verigym.envs import UsageError
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.pipelines import pipeline as pipeline_module
from verigym.trainer.pipelines.pipeline import run_pipeline, status
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.pipelines.stage_kinds import KINDS
from verigym.trainer.stages import step_run as run_module

TEXT = """\
output: {output}
seed: 1
shared:
  tasks: &tasks
    - environment: arithmetic
      options: {{digits: 1}}
    - environment: units
defaults: {{device: cpu, threads: 1, workers: 0, loggers: []}}
stages:
  - name: base
    kind: scratch
    demonstrations: *tasks
    hidden_size: 32
    layers: 1
    heads: 2
    intermediate_size: 64
    texts: 40
  - name: cold-start
    kind: sft
    model: stage:base
    demonstrations: *tasks
    demonstration_count: 40
    steps: 40
    learning_rate: 1.0e-2
    eval_every: 20
  - name: rl
    kind: grpo
    model: stage:cold-start
    sources: *tasks
    steps: 2
    prompts_per_step: 4
    group_size: 4
    max_new_tokens: 30
    eval_prompts: 4
  - name: traces
    kind: sample
    model: stage:rl
    sources: *tasks
    prompts: 8
    samples: 2
    keep: best
    max_new_tokens: 30
  - name: sft
    kind: sft
    model: stage:base
    data: [stage:traces]
    held_out_share: 0
    steps: 3
  - name: held-out
    kind: evaluate
    models: {{rl: stage:rl, sft: stage:sft}}
    sources: *tasks
    prompts: 3
    max_new_tokens: 20
"""


def write(folder: Path, text: str = TEXT) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(text.format(output=folder / "out"))
    return path


def edited(text: str, **fields: tuple[str, Any]) -> str:
    """Return the text with a stage's field set: `steps=("sft", 4)`."""
    whole = yaml.safe_load(text.format(output="OUTPUT"))
    for name, (stage, value) in fields.items():
        next(one for one in whole["stages"] if one["name"] == stage)[name] = value
    return str(yaml.safe_dump(whole, sort_keys=False)).replace("OUTPUT", "{output}")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline")
    run_pipeline(read_pipeline(write(folder)))
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A finished pipeline to change."""
    folder = tmp_path / "copied"
    shutil.copytree(finished, folder)
    for path in (folder / "out").glob("*/stage.json"):
        path.write_text(path.read_text().replace(str(finished), str(folder)))
    write(folder)
    return folder


def words(path: Path) -> dict[str, str]:
    return {state.stage.name: state.word for state in status(read_pipeline(path))}


@pytest.mark.slow
def test_the_manifest_says_how_all_of_it_was_made(finished: Path) -> None:
    manifest = json.loads((finished / "out/manifest.json").read_text())
    stages = {record["name"]: record for record in manifest["stages"]}
    assert list(stages) == ["base", "cold-start", "rl", "traces", "sft", "held-out"]
    assert {"python", "torch", "transformers", "verigym"} <= set(manifest["versions"])
    assert stages["sft"]["inputs"]["stages"] == {
        "base": stages["base"]["product_sha256"],
        "traces": stages["traces"]["product_sha256"],
    }
    assert "arithmetic@" in stages["rl"]["inputs"]["graders"]["arithmetic"]
    assert len({record["seed"] for record in stages.values()}) == 6, "each stage has randomness of its own"
    assert 0 <= stages["rl"]["figures"]["held_out_accuracy"] <= 1
    assert stages["traces"]["figures"]["kept"] >= 1
    assert {"rl/all", "rl/units", "sft/all"} <= set(stages["held-out"]["figures"])
    assert Path(stages["sft"]["product"], "model.safetensors").exists()
    (trained,) = (finished / "out").glob("rl-*")
    assert (trained / "curves.png").stat().st_size > 1000 and "held" in (trained / "samples.html").read_text()
    assert words(finished / "recipe.yaml") == dict.fromkeys(stages, "done")


def test_run_again_it_does_nothing(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "_run", None)
    lines: list[str] = []
    run_pipeline(read_pipeline(finished / "recipe.yaml"), tell=lines.append)
    assert len(lines) == 6 and all(": unchanged, " in line for line in lines)


@pytest.mark.slow
def test_a_change_makes_that_stage_and_what_follows_from_it_again(copied: Path) -> None:
    path = copied / "recipe.yaml"
    path.write_text(edited(TEXT, keep=("traces", "shortest_correct")).format(output=copied / "out"))
    done = dict.fromkeys(("base", "cold-start", "rl"), "done")
    assert words(path) == {**done, "traces": "to do", "sft": "waiting", "held-out": "waiting"}
    path.write_text(edited(TEXT, steps=("sft", 4), workers=("rl", 1)).format(output=copied / "out"))
    assert words(path)["rl"] == "done", "how many workers grade changes nothing"
    lines: list[str] = []
    run_pipeline(read_pipeline(path), tell=lines.append)
    assert [line.split(": ")[0] for line in lines if "unchanged" not in line] == ["sft", "sft", "held-out", "held-out"]
    write(copied)
    assert words(path)["sft"] == "done", "what was made before is still there"


def test_a_product_that_was_touched_is_made_again(copied: Path) -> None:
    record = next((copied / "out").glob("traces-*/stage.json"))
    data = Path(json.loads(record.read_text())["product"])
    before = data.read_bytes()
    data.write_bytes(before[:-20])
    assert words(copied / "recipe.yaml")["traces"] == "begun"
    run_pipeline(read_pipeline(copied / "recipe.yaml"), until="traces")
    assert data.read_bytes() == before


def test_another_version_of_an_environment_is_another_input(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from verigym.envs.generated.families import UnitsEnvironment

    monkeypatch.setattr(UnitsEnvironment, "version", "999")
    assert words(copied / "recipe.yaml")["base"] == "to do"


def test_stopped_in_a_stage_it_goes_on_there(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (copied / "out").glob("sft-*")
    weights = (path / "final/model.safetensors").read_bytes()
    shutil.rmtree(path)
    real = run_module.StepRun._step

    def step(self: Any, number: int, *more: Any) -> dict[str, float]:
        if number == 1 and not self.resumed:
            signal.raise_signal(signal.SIGINT)
        return real(self, number, *more)

    monkeypatch.setattr(run_module.StepRun, "_step", step)
    recipe = copied / "recipe.yaml"
    assert cli.main(["pipeline", "run", str(recipe)]) == 130
    told = capsys.readouterr().err
    assert told.count("go on with the same command") == 1
    assert "error" not in told
    assert words(recipe)["sft"] == "begun"
    lines: list[str] = []
    run_pipeline(read_pipeline(recipe), tell=lines.append)
    assert any("sft: going on in" in line for line in lines)
    assert (path / "final/model.safetensors").read_bytes() == weights
    assert Interrupted.__doc__


def test_a_mistake_of_a_running_stage_names_the_stage(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (copied / "out").glob("traces-*")
    shutil.rmtree(path)
    monkeypatch.setattr("verigym.trainer.stages.rejection_sampling.kept_rows", lambda *args: ([], {}))
    with pytest.raises(
        UsageError, match=r"recipe\.yaml:\d+: stage 'traces': none of 2 x 8 completions was kept .* better model"
    ):
        run_pipeline(read_pipeline(copied / "recipe.yaml"), until="traces")


def test_the_command_line(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(finished / "recipe.yaml")
    assert cli.main(["pipeline", "status", recipe]) == 0
    out = capsys.readouterr().out
    assert out.count(" done ") == 6 and "kept" in out
    assert len(out.splitlines()) == 1 + 6, "a stage is one line, however narrow the terminal"
    rl = next(line for line in out.splitlines() if line.startswith("rl "))
    assert "held_out_accuracy" in rl and "/accuracy" not in rl, "the figures over all sources"
    assert str(finished / "out/rl-") in rl, "the whole folder"
    assert cli.main(["pipeline", "run", recipe, "--until", "colt-start"]) == 2
    assert "no stage is called 'colt-start'; did you mean 'cold-start'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps: 40", "stebs: 40", "unknown field 'stebs'; did you mean 'steps'?"),
        ("steps: 40", "steps: many", "field 'steps': "),
        ("kind: grpo", "kind: grop", "field 'kind' of stage 'rl' is 'grop'; did you mean 'grpo'?"),
        ("model: stage:rl", "model: stage:rll", "stage 'traces' refers to 'rll', and no stage before it"),
        ("model: stage:rl", "model: stage:sft", "stage 'traces' refers to 'sft', and no stage before it"),
        (
            "[stage:traces]",
            "[stage:rl]",
            "field 'data' takes the data of a stage of kind sample or pairs or step-labels; stage 'rl' is of kind 'grpo'",
        ),
        ("name: rl", "name: base", "two stages are called 'base'"),
        ("name: rl", "name: My RL", "field 'name': expected small letters"),
        ("environment: units", "environment: units\n      weihgt: 2", "unknown field 'demonstrations.1.weihgt'"),
        ("loggers: []", "logers: []", "no stage in this file has a field 'logers'"),
        ("seed: 1\n", "seed: 1\n  x: 2\n", "not YAML"),
        ("seed: 1\n", "sead: 1\n", "unknown field 'sead'; did you mean 'seed'?"),
        ("kind: sample", "kind: sample\n    output: here", "a stage's folder is the pipeline's affair"),
    ],
)
def test_a_mistake_names_file_line_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    path = write(tmp_path, text)
    lines = enumerate(zip(TEXT.splitlines(), text.splitlines(), strict=False), 1)
    line = next(number for number, (before, after) in lines if before != after)
    with pytest.raises(UsageError) as caught:
        read_pipeline(path)
    place, said = f"recipe.yaml:{line}: ", str(caught.value)
    assert place in said
    assert message in said.partition(place)[2]
    assert not (tmp_path / "out").exists(), "nothing has run"


def test_every_kind_is_there() -> None:
    for name, kind in KINDS.items():
        assert "output" in kind.config_type().model_fields, name
        assert "seed" in kind.config_type().model_fields, name
