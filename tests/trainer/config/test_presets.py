"""Settings by the name of a paper."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from verigym.envs.contract.errors import UsageError
from verigym.trainer.advantages.table import ADVANTAGES
from verigym.trainer.config.presets import PRESETS, preset, table
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.learner.objective import choose_correction, choose_loss
from verigym.trainer.losses.table import LOSSES

GIVEN = {"model": "m", "output": Path("out"), "sources": [{"environment": "arithmetic"}]}
NAMES = sorted(PRESETS)


def config(**fields: object) -> TrainConfig:
    return build_config({**GIVEN, **fields}, "here")


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_sets_its_fields_and_no_others(name):
    plain, found = config().model_dump(), config(preset=name).model_dump()
    settings = preset(name)
    assert {field: found[field] for field in settings} == settings
    assert {field for field in found if found[field] != plain[field]} <= {"preset", *settings}


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_can_be_built(name):
    made = config(preset=name)
    choose_loss(made)
    choose_correction(made)
    assert made.advantage in ADVANTAGES
    own = [p.name for p in inspect.signature(LOSSES[made.loss].function).parameters.values()]
    assert all(option in own for option in ("clip_low", "clip_high", "delta") if option in preset(name))
    assert (made.aggregation == "sequence_mean") or not LOSSES[made.loss].whole_completions


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_has_a_source_and_a_sentence(name):
    assert re.fullmatch(r"\d{4}\.\d{5}|TRL", PRESETS[name].source)
    assert re.fullmatch(r"[^|\n]{20,120}\.", PRESETS[name].what)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", {"advantage": "grpo", "loss": "clipped", "aggregation": "sequence_mean", "kl_coef": 0.04}),
        ("dr_grpo", {"advantage": "centred", "aggregation": "fixed_length", "kl_coef": 0.0}),
        ("dapo", {"clip_low": 0.2, "clip_high": 0.28, "aggregation": "token_mean", "dynamic_sampling": True}),
        ("gspo", {"loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4, "aggregation": "sequence_mean"}),
        ("cispo", {"loss": "cispo", "clip_low": 1.0, "clip_high": 4.0}),
        ("rloo", {"advantage": "rloo", "kl_place": "reward", "kl_estimator": "k1"}),
        ("ppo", {"advantage": "gae", "clip_high": 0.2, "value_clip": 0.2, "kl_place": "reward"}),
        ("lite", {"advantage": "batch_std", "aggregation": "token_mean"}),
        ("dppo", {"advantage": "centred", "aggregation": "fixed_length", "delta": 0.2, "kl_coef": 0.0}),
    ],
)
def test_what_papers_say(name, expected):
    assert config(preset=name).model_dump(include=set(expected)) == expected


def test_fields_that_are_given_win():
    made = config(preset="dapo", clip_high=0.3, dynamic_sampling=False)
    assert (made.clip_low, made.clip_high, made.dynamic_sampling) == (0.2, 0.3, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"preset": "dapo", "loss": "reinforce", "dynamic_sampling": False}, {"clip_low": None, "clip_high": None}),
        ({"preset": "gspo", "loss": "gmpo", "clip_high": 0.3}, {"clip_low": None, "clip_high": 0.3}),
        ({"preset": "gspo", "loss": "gspo"}, {"clip_low": 3e-4, "clip_high": 4e-4}),
        ({"preset": "sapo", "loss": "gspo"}, {"loss_options": {}, "aggregation": "sequence_mean"}),
        ({"preset": "dppo", "loss": "clipped"}, {"delta": None, "aggregation": "fixed_length"}),
        ({"preset": "deepseek_v3.2", "correction": None}, {"correction_options": {}, "clip_low": 0.2}),
        ({"preset": "deepseek_v3.2", "correction": "token_masked"}, {"correction_options": {}, "kl_unbiased": True}),
        ({"preset": "deepseek_v3.2", "correction": "opsm"}, {"correction_options": {"delta": 0.1}}),
    ],
    ids=str,
)
def test_another_loss_or_correction_comes_without_the_options_of_the_presets(given, expected):
    made = config(**given)
    assert made.model_dump(include=set(expected)) == expected
    choose_loss(made)
    choose_correction(made)


@pytest.mark.parametrize("fields", [{"clip_high": 0.5}, {"loss": "gmpo"}], ids=str)
def test_a_dumped_config_comes_back_as_it_was(fields):
    made = config(preset="gspo", **fields)
    assert TrainConfig.model_validate(made.model_dump(mode="json")) == made


@pytest.mark.parametrize(("name", "hint"), [("dr_gpro", "did you mean 'dr_grpo'"), ("xyz", "known: bnpo, cispo")])
def test_an_unknown_preset_is_one_line_with_a_hint(name, hint):
    with pytest.raises(ValueError, match=hint):
        preset(name)
    with pytest.raises(UsageError, match=f"here: .*there is no preset '{name}'.*{hint}") as caught:
        config(preset=name)
    assert "\n" not in str(caught.value)


def test_a_preset_that_is_no_name_is_refused():
    with pytest.raises(UsageError, match="preset"):
        config(preset=3)


def test_the_documentation_shows_the_table():
    page = (Path(__file__).resolve().parents[3] / "docs/training.md").read_text()
    assert table() in page, "run `python -m verigym.trainer.config.presets` and paste the table into docs/training.md"
