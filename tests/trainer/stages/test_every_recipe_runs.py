"""Every recipe and every suite, found by their files, made small by one rule (support/shrink.py) and run, every stage of it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from shrink import Shrinker, teach_golds, without_lean

from verigym import cli
from verigym.trainer.pipelines.plan import read_pipeline

ROOT = Path(__file__).resolve().parents[3]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
SUITES = sorted((ROOT / "datasets_cfg/suites").glob("*.yaml"))


@pytest.fixture(scope="module")
def shrinker(tmp_path_factory: pytest.TempPathFactory) -> Shrinker:
    return Shrinker(tmp_path_factory.mktemp("small"))


@pytest.fixture(autouse=True)
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    teach_golds(monkeypatch)
    # Pictures are looked at in tests/trainer/monitoring/test_report.py and test_pipeline.py.
    monkeypatch.setattr("verigym.trainer.monitoring.report._draw", lambda path, panels: path.write_bytes(b""))


def rows(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def run(path: Path, *, golds: bool = True) -> dict[str, Path]:
    """Run a pipeline, look at what each stage made, and return the stages' folders.

    Args:
        path: of the small pipeline.
        golds: whether a right completion can be written for some task, so that rewards differ.
    """
    assert cli.main(["pipeline", "run", str(path)]) == 0
    pipeline = read_pipeline(path)
    manifest = json.loads((pipeline.output / "manifest.json").read_text())
    folders = {record["name"]: next(pipeline.output.glob(f"{record['name']}-????????")) for record in manifest["stages"]}
    assert list(folders) == [stage.name for stage in pipeline.stages]
    for stage in pipeline.stages:
        folder = folders[stage.name]
        if stage.kind_name == "grpo":
            (row,) = rows(folder, "train")
            assert row["unscored"] == 0, (stage.name, row)
            assert math.isfinite(row["loss"]) and row["trained_rows"] > 0, (stage.name, row)
            assert not golds or (row["rows_with_advantage"] > 0 and row["grad_norm"] > 0), (stage.name, row)
        elif stage.kind_name == "sample":
            counts = json.loads((folder / "summary.json").read_text())["counts"]["all"]
            assert counts["kept"] > 0 and counts["unscored"] == 0, (stage.name, counts)
        elif stage.kind_name == "evaluate":
            report = json.loads((folder / "report.json").read_text())
            for label, sources in report["models"].items():
                assert all(part["unscored"] == 0 for part in sources.values()), (stage.name, label, sources)
        elif stage.kind.makes == "model":
            assert (folder / "final").is_dir(), stage.name
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_runs(path: Path, shrinker: Shrinker) -> None:
    read_pipeline(path)  # as it is written, its engines' refusals included
    folders = run(shrinker.recipe(path))
    if path.stem == "math500_short":
        (checkpoint,) = (folders["rl"] / "checkpoints").glob("step-*")
        data = f"{shrinker.folder / 'math500.yaml'}:test"
        options = ["--data-dir", str(shrinker.folder), "--prompts", "1", "--max-new-tokens", "8", "--set", "workers=0"]
        assert cli.main(["eval", str(checkpoint), "--data", data, "--output", "eval", "--set", "device=cpu", *options]) == 0
        assert list(json.loads(Path("eval/report.json").read_text())["models"]) == [checkpoint.name]


@pytest.mark.slow
@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_every_suite_runs(path: Path, shrinker: Shrinker, monkeypatch: pytest.MonkeyPatch) -> None:
    lean_here = bool(os.environ.get("LEAN4_BIN"))
    if path.stem == "lean" and not lean_here:
        without_lean(monkeypatch)
    fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    run(shrinker.suite(fields), golds=path.stem != "lean")
