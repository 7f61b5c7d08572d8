"""Every shipped recipe and every example of the pages is right: read, checked, and where it is quick, run."""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from verigym import cli
from verigym.datasets_cfg import load_config
from verigym.trainer.pipelines.pipeline import graders, status
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.pipelines.stage_kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


def example(page: str, name: str) -> str:
    text = (ROOT / "docs" / page).read_text()
    (found,) = re.findall(rf"<!-- example: {name} -->\n```\w*\n(.*?)```", text, re.DOTALL)
    return str(found)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_right(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    states = status(read_pipeline(path))
    assert [state.word for state in states] == ["waiting" if state.stage.needs else "to do" for state in states]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_every_recipe_names_is_there(path: Path) -> None:
    """Environments with these options, data sets with these splits; none that is for measuring alone is trained on."""
    pipeline = read_pipeline(path)
    for stage in pipeline.stages:
        config = pipeline.config(stage, Path("o"), {name: Path("made-by") / name for name in stage.needs})
        assert graders(config) or not hasattr(config, "sources")
        for source in (*getattr(config, "sources", ()), *getattr(config, "demonstrations", ())):
            if source.dataset is None:
                continue
            described = load_config(source.dataset)
            assert source.eval_split is None or source.eval_split in described.splits, (stage.name, source.label)
            if stage.kind_name != "evaluate":
                assert source.split in described.splits, (stage.name, source.label)
                assert source.split not in described.evaluation_only, (stage.name, source.label)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_says_how_it_is_started(path: Path) -> None:
    text = path.read_text()
    assert f"verigym pipeline run recipes/{path.name}" in text
    assert f"`recipes/{path.name}`" in "".join(page.read_text() for page in (ROOT / "docs").glob("recipes*.md"))


def test_there_are_recipes() -> None:
    names = {path.stem for path in RECIPES}
    assert names >= {"r1_small", "r1_zero", "r1", "r1_distill", "deepseekmath", "tulu3_rlvr", "math500_short"}


def test_the_page_of_stages(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(example("stages.md", "pipeline"))
    assert [stage.kind_name for stage in read_pipeline(path).stages] == ["scratch", "sft", "grpo", "sample", "sft"]
    page = (ROOT / "docs/stages.md").read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.makes} |" in page


@pytest.mark.slow
def test_the_page_of_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_model: Any, tiny_tokenizer: Any
) -> None:
    tiny_model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    command = shlex.split(example("evaluation.md", "eval").replace("\\\n", " "))
    assert command[:2] == ["verigym", "eval"]
    assert cli.main(command[1:]) == 0
    assert "best-of by steps@4" in capsys.readouterr().out
    code = example("evaluation.md", "reflection")
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, "evaluation.md", "exec"), {})  # noqa: S102
    assert out.getvalue().strip() == code.strip().splitlines()[-1].removeprefix("# ")
