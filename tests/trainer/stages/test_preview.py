"""A pipeline looked at before it runs: what each stage reads and writes, what is done, what is wrong, what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from verigym import cli
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.pipelines.preview import preview

SUMS: dict[str, Any] = {"environment": "arithmetic", "options": {"digits": 1}}
SIZES = {"texts": 20, "vocabulary": 300, "hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 16}
BASE: dict[str, Any] = {"name": "base", "kind": "scratch", "demonstrations": [SUMS], **SIZES}
SIZE = {"steps": 1, "prompts_per_step": 1, "group_size": 2, "max_new_tokens": 4, "workers": 0}
SHORT: dict[str, Any] = {"sources": [SUMS], **SIZE}


def write(folder: Path, *stages: dict[str, Any]) -> str:
    path = folder / "recipe.yaml"
    whole = {"output": str(folder / "out"), "defaults": {"device": "cpu"}, "stages": stages}
    path.write_text(yaml.safe_dump(json.loads(json.dumps(whole)), sort_keys=False))
    return str(path)


def test_what_is_done_what_waits_and_what_it_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = {"name": "rl", "kind": "grpo", "model": "stage:base", **SHORT}
    path = write(tmp_path, BASE, first, {**first, "name": "more", "model": "stage:rl"})
    assert cli.main(["pipeline", "plan", path]) == 0
    shown = capsys.readouterr().out
    assert "1. base (scratch): to do" in shown and "2. rl (grpo): waiting" in shown
    assert "cost: known when base is done" in shown and "nothing is in the way" in shown
    assert not (tmp_path / "out").exists()

    assert cli.main(["pipeline", "run", path, "--until", "base"]) == 0
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert cli.main(["pipeline", "run", path, "--dry-run"]) == 0
    base, rl, more = capsys.readouterr().out.split("     reads stage:")
    assert base.startswith("1. base (scratch): done") and rl.startswith("base") and more.startswith("rl")
    assert "rl (grpo): to do" in base and " s to " in rl.partition("cost: ")[2]
    assert "cost: known when rl is done" in more
    assert sorted(tmp_path.rglob("*")) == before, "nothing was written"


def test_every_mistake_is_shown_and_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text('{"q": "1+1?"}\n')
    (tmp_path / "mine.yaml").write_text(
        "name: mine\ndescription: Sums.\nlicence: CC0-1.0\nurl: https://example.org\nfiles: {train: rows.jsonl}\n"
        'environment: math\ncolumns: {q: string, a: string}\nprompt: "{q}"\nreference: {answer: {column: a}}\n'
    )
    rows = {"dataset": str(tmp_path / "mine.yaml"), "data_dir": str(tmp_path), "eval_split": None}
    path = write(
        tmp_path,
        BASE,
        {"name": "lost", "kind": "sft", "model": str(tmp_path / "nowhere"), "demonstrations": [SUMS]},
        {"name": "empty", "kind": "sft", "model": "stage:base", "data": [str(tmp_path / "absent.jsonl")]},
        {"name": "rows", "kind": "grpo", "model": "stage:base", **SHORT, "sources": [rows]},
    )
    assert cli.main(["pipeline", "plan", path]) == 2
    shown = capsys.readouterr()
    problems = [line for line in shown.out.splitlines() if "CANNOT RUN" in line]
    assert len(problems) == 3
    for problem, said in zip(problems, ("there is no directory", "absent.jsonl", "'a'"), strict=True):
        assert "recipe.yaml:" in problem and said in problem
    assert "3 stages cannot run" in shown.err
    assert not (tmp_path / "out").exists()


def test_what_a_stage_reads_takes_two_lines_however_many_tasks_there_are() -> None:
    recipe = Path(__file__).parents[3] / "recipes/r1_small.yaml"
    (held_out,) = [one for one in preview(read_pipeline(recipe), priced=False) if one.state.stage.name == "held-out"]
    stages, tasks = held_out.reads
    assert stages == "stage:base, stage:cold-start, stage:rl, stage:sft, stage:rl-2"
    assert tasks == "tasks of arithmetic, bases, functions, story, units"
