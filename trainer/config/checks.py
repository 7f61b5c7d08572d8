"""Refuses settings that another setting leaves without effect."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from verigym.trainer.config.engine import ENGINES, EngineFields
from verigym.trainer.config.episodes import EpisodeFields
from verigym.trainer.config.model import KernelFields
from verigym.trainer.config.presets import PRESETS
from verigym.trainer.config.update import CriticFields

Rule = tuple[tuple[str, ...], Callable[[Any], bool], str]
"""A triple: names of fields; a function of all settings that returns True if these fields have an effect; the end of the error
message if they have none."""


def engine_rules(fields: Container[str]) -> tuple[Rule, ...]:
    """Return a rule for each setting in `fields` that only certain engines use, and that has no effect with the others."""
    rules: list[Rule] = []
    for setting in dict.fromkeys(setting for entry in ENGINES.values() for setting in entry.settings if setting in fields):
        takers = tuple(name for name, entry in ENGINES.items() if setting in entry.settings)
        names = " or ".join(takers)
        rules.append(((setting,), partial(_samples_with, takers), f"is about engine {names}; set engine to {names}"))
    return tuple(rules)


def _samples_with(engines: Container[str], config: Any) -> bool:
    return config.engine in engines


JOINING = " or ".join(name for name, entry in ENGINES.items() if entry.joins)
EPISODE_RULES: tuple[Rule, ...] = (
    *engine_rules(EpisodeFields.model_fields),
    (
        ("episode_order",),
        lambda c: ENGINES[c.engine].joins,
        f"is about engines whose turns can join while others are sampled; set engine to {JOINING}",
    ),
)
"""The rules of runs and evaluations with episodes."""
ENGINE_RULES = engine_rules(EngineFields.model_fields)
"""The rules of stages that sample."""
RUN_RULES: tuple[Rule, ...] = (
    (tuple(CriticFields.model_fields), lambda c: c.advantage == "gae", "is about a critic; set advantage to gae"),
    *engine_rules({*KernelFields.model_fields, *EngineFields.model_fields}),
    *EPISODE_RULES,
    (
        ("cuda_graphs",),
        lambda c: not c.cuda_graphs or c.episode_order == "lockstep",
        "replays steps of fixed sizes, and with episode_order free turns of any length join; set episode_order to lockstep",
    ),
    (
        ("hard_share", "easy_share", "hard_below", "easy_above"),
        lambda c: c.curriculum,
        "is about tasks sorted by their pass rate; set curriculum to true",
    ),
    (
        ("max_staleness",),
        lambda c: c.overlap == "free",
        "bounds what is sampled ahead; set overlap to free",
    ),
    (
        ("max_oversampling",),
        lambda c: c.dynamic_sampling,
        "is about prompts that are drawn again; set dynamic_sampling to true",
    ),
    (
        ("replay_size", "replay_below", "replay_max_age"),
        lambda c: c.replay_share > 0,
        "is about replayed groups; set replay_share above 0",
    ),
    (
        ("kl_estimator", "kl_place", "kl_unbiased"),
        lambda c: c.kl_coef > 0,
        "is about a KL to the initial model; set kl_coef above 0",
    ),
    (
        ("eval_samples", "eval_temperature"),
        lambda c: c.eval_every > 0,
        "is about evaluations during the run; set eval_every above 0",
    ),
    (
        ("log_project",),
        lambda c: not {"wandb", "trackio"}.isdisjoint(c.loggers),
        "is the project's name for wandb and trackio; name one of them in loggers",
    ),
)
"""The rules of a training run."""


def refuse_ineffective(config: BaseModel, rules: Sequence[Rule] = RUN_RULES) -> None:
    """Refuse a setting in `config` that has no effect.

    A setting at its default value, or at the value that the preset gives it, is never refused. This makes it possible to read
    the config.json of a run, which contains all settings.

    Args:
        config: the settings of a run or a stage.
        rules: which settings need which others to have an effect.

    Raises:
        ValueError: names the setting and the settings that it needs.
    """
    preset = getattr(config, "preset", None)
    chosen: Mapping[str, Any] = PRESETS[preset].settings if preset else {}
    for names, used, what in rules:
        for name in () if used(config) else names:
            value = getattr(config, name)
            if value != type(config).model_fields[name].default and value != chosen.get(name):
                raise ValueError(f"{name} {what}, or leave it out")
