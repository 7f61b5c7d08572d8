"""recipes/r1_small.yaml, all of it, with everything made so small that it takes seconds: mathematics, programs, a layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from verigym import cli

RECIPE = Path(__file__).resolve().parents[3] / "recipes/r1_small.yaml"
SMALL: dict[str, dict[str, Any]] = {
    "scratch": {"hidden_size": 64, "layers": 2, "heads": 2, "intermediate_size": 128, "texts": 200},
    "sft": {"steps": 5, "demonstration_count": 100, "warmup_steps": 2},
    "grpo": {"steps": 1, "prompts_per_step": 5, "group_size": 2, "eval_prompts": 1},
    # So small a model is hardly ever right: what it wrote is kept as it is, so that there is something to learn.
    "sample": {"prompts": 10, "samples": 2, "prompts_at_a_time": 5, "keep": "best"},
    "evaluate": {"prompts": 2, "samples": 2, "prompts_at_a_time": 10},
}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fields = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    for stage in fields["stages"]:
        stage |= SMALL[stage["kind"]]
    cold_start = next(stage for stage in fields["stages"] if stage["name"] == "cold-start")
    cold_start |= {
        "steps": 120,
        "batch_size": 16,
        "demonstration_count": 400,
        "learning_rate": 1e-2,
    }  # long enough to write programs in fences
    fields["defaults"] |= {"threads": 1, "workers": 0, "loggers": []}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.slow
def test_the_whole_way_in_small(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pipeline", "run", str(recipe)]) == 0
    shown = capsys.readouterr().out
    folder = recipe.parent / "runs/r1_small"
    manifest = json.loads((folder / "manifest.json").read_text())
    made = {stage["name"]: stage for stage in manifest["stages"]}
    assert list(made) == [stage["name"] for stage in yaml.safe_load(RECIPE.read_text(encoding="utf-8"))["stages"]]

    tables = (folder / "tables.md").read_text()
    assert tables.strip() in shown
    assert "| avg@2 | base | cold-start | rl | sft | rl-2 |" in tables
    assert "| avg@2 | whole | no-sampling | no-rl | no-rl-twice | neither |" in tables
    assert tables.count("\n| functions |") == 2
    for name in ("held-out", "ablation"):
        report = json.loads(Path(made[name]["product"]).read_text())
        for sources in report["models"].values():
            assert set(sources) == {"arithmetic", "bases", "functions", "story", "units", "all"}
            assert all(part["unscored"] == 0 for part in sources.values())

    # What the cold-started model wrote was run against tests in the sandbox, not refused for want of a program.
    lines = (folder / f"{Path(made['traces-cold']['product']).parent.name}/samples.jsonl").read_text().splitlines()[1:]
    scores = [s[3] for row in map(json.loads, lines) if row["source"] == "functions" for s in row["samples"]]
    assert any("passed" in score.get("components", {}) for score in scores), scores

    # One seed for the demonstrations of all arms: each learns what the cold start learnt.
    assert len({made[name]["seed"] for name in ("cold-start", "sft", "sft-cold-alike", "sft-cold")}) == 1

    assert cli.main(["pipeline", "run", str(recipe)]) == 0
    again = capsys.readouterr().out
    assert again.count(": unchanged, ") == len(made) and tables.strip() in again
