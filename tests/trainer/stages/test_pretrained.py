"""The recipe for a pretrained chat model: its tasks, and, with the model that a package ships, all of it in small."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from catalogue import ROOT
from needs import lack

from verigym import cli
from verigym.datasets_cfg.load import load as load_dataset
from verigym.envs import Status

RECIPE = ROOT / "recipes/pretrained/run.yaml"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("prepare_pretrained", ROOT / "recipes/pretrained/prepare.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    script().main(folder)
    return folder


def prompts(tasks: Path, name: str, split: str) -> list[str]:
    return [json.loads(line)["prompt"] for line in (tasks / name / f"{split}.jsonl").read_text().splitlines()]


def test_the_tasks_are_the_same_each_time(tasks: Path, tmp_path: Path) -> None:
    script().main(tmp_path)
    for path in tasks.glob("*/*.jsonl"):
        assert (tmp_path / path.relative_to(tasks)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["sums", "instructions"])
def test_no_held_out_task_is_trained_on(name: str, tasks: Path) -> None:
    train, test = prompts(tasks, name, "train"), prompts(tasks, name, "test")
    assert (len(train), len(test)) == (1500, 200)
    assert len({*train, *test}) == 1700


def test_the_rows_are_read_and_right_answers_are_right(tasks: Path) -> None:
    sums = load_dataset(str(ROOT / "recipes/pretrained/sums.yaml"), "test", data_dir=tasks, options={"extract": "last"})
    assert all(sums.environment.score(sums[n], f"It is {sums[n].references['math'].answer}.").correct for n in range(200))  # type: ignore[attr-defined]
    asked = load_dataset(str(ROOT / "recipes/pretrained/instructions.yaml"), "test", data_dir=tasks)
    kept = "<<Title>>\n* bright, quiet\n"
    verdicts = {asked.environment.score(asked[number], kept).status for number in range(200)}
    assert verdicts == {Status.CORRECT, Status.INCORRECT}


@pytest.mark.slow
def test_the_recipe_runs_in_small(tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    try:
        script().main(tasks, model)
    except subprocess.CalledProcessError as error:
        lack("packages", error)
    recipe = yaml.safe_load(RECIPE.read_text().replace("runs/models/smollm2-135m-instruct", str(model)))
    recipe["output"] = str(tmp_path / "out")
    for stage in recipe["stages"]:
        stage["max_new_tokens"] = 24
        for source in stage["sources"]:
            source["dataset"] = str(ROOT / source["dataset"])
            source["data_dir"] = str(tasks)
    training, held_out = recipe["stages"]
    training |= {"steps": 10, "prompts_per_step": 2, "group_size": 4, "workers": 1, "loggers": []}
    held_out |= {"prompts": 4, "workers": 1}
    (tmp_path / "small.yaml").write_text(json.dumps(recipe))
    assert cli.main(["pipeline", "run", str(tmp_path / "small.yaml")]) == 0
    said = capsys.readouterr().err
    assert "first look:\n  sums: an answer was read in " in said
    (folder,) = (tmp_path / "out").glob("rl-*")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["kind"] == "train"]
    assert len(steps) == 10 and all(math.isfinite(row["loss"]) and row["unscored"] == 0 for row in steps if "loss" in row)
    assert sum(row["reward"] for row in steps) > 0 and max(row["grad_norm"] for row in steps if "grad_norm" in row) > 0
    (report,) = (tmp_path / "out").glob("held-out-*/report.json")
    assert list(json.loads(report.read_text())["models"]) == ["start", "trained"]
