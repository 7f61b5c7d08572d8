"""docs/presets.md: every setting of a preset, every number of a suite and a recipe, with the value that the file has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from verigym.datasets_cfg.suites import load_suite
from verigym.pages.presets import SOURCES
from verigym.trainer.config.presets import PRESETS
from verigym.trainer.pipelines.plan import read_pipeline

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/presets.md").read_text(encoding="utf-8")
MARK = re.compile(r"(read|quoted|remembered|ours|as clip_low|all of)\b")
OWN_SIZES = {"r1_small.yaml", "distillation.yaml", "prm.yaml", "reward_model.yaml", "quickstart.yaml"}
"""Files whose numbers are all ours; the page says so by name."""
WITHOUT_NUMBERS = {
    *("name", "kind", "model", "models", "teacher", "data", "sources", "suite", "demonstrations", "train_data"),
    *("engine", "vllm_urls", "dtype", "device", "optimizer", "gradient_checkpointing", "checkpoint_every", "keep_checkpoints"),
}
"""Fields that say what is trained on which machine."""


def numbers(path: Path) -> dict[tuple[str, str], str]:
    """Return what a file sets, by (where, field), as the page writes it."""
    fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    found: dict[tuple[str, str], str] = {}
    for stage in fields.get("stages") or [{**fields.get("train", {}), "sources": fields["sources"]}]:
        where = f"{path.parent.name}/{path.name}" + (f", {stage['name']}" if "stages" in fields else "")
        found |= {(where, field): str(value) for field, value in stage.items() if field not in WITHOUT_NUMBERS}
        of_sources: dict[str, list[tuple[str, float]]] = {}
        sources: list[dict[str, Any]] = stage.get("sources", [])
        for source in sources:
            label = source.get("dataset") or source["environment"]
            for field in ("weight", "min_share", "shots", "reward_scale"):
                if source.get(field):
                    of_sources.setdefault(field, []).append((label, source[field]))
            for name, added in source.get("add", {}).items():
                of_sources.setdefault(f"add {name}", []).append((label, added["weight"]))
        for field, values in of_sources.items():
            same = len({value for _, value in values}) == 1 and len(values) == len(sources)
            shown = f"all {values[0][1]}" if same else ", ".join(f"{label} {value}" for label, value in values)
            found[where, f"sources: {field}"] = shown
    return found


def test_every_setting_of_a_preset_has_its_source() -> None:
    assert {name: list(preset.settings) for name, preset in PRESETS.items()} == {name: list(of) for name, of in SOURCES.items()}
    assert all(MARK.match(source) for of in SOURCES.values() for source in of.values())


def test_every_number_of_a_suite_and_a_recipe_is_on_the_page() -> None:
    files = [path for path in [*(ROOT / "datasets_cfg/suites").glob("*.yaml"), *(ROOT / "recipes").glob("*.yaml")]]
    assert all(f"`{path.parent.name}/{path.name}`" in PAGE for path in files if path.name in OWN_SIZES)
    wanted: dict[tuple[str, str], str] = {}
    for path in files:
        wanted |= {} if path.name in OWN_SIZES else numbers(path)
    rows = re.findall(r"^\| ((?:suites|recipes)/[^|]+) \| `([^`]+)` \| `([^`]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    shown = {(where, field): value for where, field, value, _ in rows}
    assert shown == wanted
    assert all(MARK.match(source) for *_, source in rows)


def test_r1_changes_what_the_paper_changes() -> None:
    """From R1-Zero to R1's first reinforcement learning: a reward for language; to its second: temperature and general data."""
    zero, one = load_suite("r1-zero"), load_suite("r1")
    assert zero.train == one.train
    language = {"language"}
    for before, after in zip(zero.sources, one.sources, strict=True):
        assert set(after.add) - set(before.add) == language and after.add["language"].options == {"unit": "words"}
        rest = {name: added for name, added in after.add.items() if name not in language}
        assert after.model_copy(update={"add": rest}) == before
    pipeline = read_pipeline(ROOT / "recipes/r1.yaml")
    runs: dict[str, Any] = {stage.name: pipeline.expected(stage) for stage in pipeline.stages if stage.kind_name == "grpo"}
    free = {"model", "output", "seed", "steps", "sources", "suite"}
    as_one = runs["rl"].model_dump(exclude=free)
    for name in ("rl-2", "rl-general"):
        assert runs[name].model_dump(exclude=free) == {**as_one, "temperature": 0.7}
    assert runs["rl-2"].sources == runs["rl"].sources
    plain = {source.label: source.model_dump(exclude={"min_share"}) for source in runs["rl"].sources}
    general = {source.label: source.model_dump(exclude={"min_share"}) for source in runs["rl-general"].sources}
    assert set(general) - set(plain) == {"rlvr_ifeval"}
    assert {label: general[label] for label in plain} == plain


@pytest.mark.slow
def test_chains_are_sampled_in_the_template_that_their_model_was_trained_with() -> None:
    pipeline = read_pipeline(ROOT / "recipes/r1.yaml")
    configs: dict[str, Any] = {stage.name: pipeline.expected(stage) for stage in pipeline.stages}
    templates = {name: {s.template for s in getattr(config, "sources", ())} for name, config in configs.items()}
    for trained, sampled in (("zero", "chains"), ("rl", "traces"), ("rl-general", "held-out")):
        assert templates[trained] == templates[sampled] == {"r1-zero"}


@pytest.mark.slow
def test_updates_and_episodes_are_as_many_as_published() -> None:
    def run(name: str, stage: str) -> Any:
        pipeline = read_pipeline(ROOT / f"recipes/{name}.yaml")
        return pipeline.expected(next(one for one in pipeline.stages if one.name == stage))

    zero, longer = run("r1_zero", "rl"), run("r1_zero", "rl-long")
    assert zero.prompts_per_step * zero.group_size == 8192
    assert zero.steps * zero.updates_per_step == 8192
    assert (zero.steps + longer.steps) * zero.updates_per_step == 10_400
    second, general = run("r1", "rl-2"), run("r1", "rl-general")
    assert second.updates_per_step * second.steps == pytest.approx(1300, abs=16)
    assert general.updates_per_step * general.steps == 400
    tulu = run("tulu3_rlvr", "rl")
    assert tulu.prompts_per_step * tulu.group_size * tulu.steps == pytest.approx(100_000, abs=224)
    assert tulu.sources[0].reward_scale * tulu.truncated_reward == -10
    math = run("deepseekmath", "rl")
    assert math.prompts_per_step * math.steps == 144_000
