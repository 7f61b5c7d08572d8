"""What a suite costs: tasks, tokens of a prompt, seconds of a verdict, measured on a few tasks of each source."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from verigym.datasets_cfg import load, load_sample
from verigym.datasets_cfg.load import RowError
from verigym.envs import Environment, Prompt, UsageError
from verigym.envs import load as load_environment
from verigym.envs.base import TaskSource
from verigym.envs.errors import EnvironmentFailure, told_of
from verigym.trainer.config import SourceConfig, TrainConfig
from verigym.trainer.mixture import build_source, shares_of

CHARACTERS_A_TOKEN = 4
"""Of English text under the usual tokenizers, roughly; a tokenizer of yours says it exactly."""


@dataclass(frozen=True)
class SourcePrice:
    """One source's part."""

    label: str
    environment: str
    share: float
    """Of the prompts."""
    tasks: int | None
    """None: the environment writes new ones without end, or the rows were not at hand."""
    where: str
    """What was measured: local, hub, generated or sample row."""
    prompt_tokens: float
    """Mean."""
    grade_s: float | None
    """Mean time of a verdict on a gold, in this process; None where there is no gold."""
    graded: int
    """Golds that were judged."""
    problem: str = ""
    """What keeps this source from being trained on here, or a gold that does not score the maximum."""


def price(config: TrainConfig, golds: int, hub: bool, count: Callable[[Prompt], int] | None = None) -> list[SourcePrice]:
    """Measure each source of a run.

    Args:
        config: the run.
        golds: tasks that are looked at, and golds judged, of each source.
        hub: whether rows that are not local are read from the hub; otherwise their description's sample row stands for them.
        count: tokens of a prompt; characters / 4 when left out.

    Raises:
        UsageError: a source is described wrongly: an unknown name, a bad option, no such split or template.
    """
    found = [_measure(source, config.seed, golds, hub, count or _characters) for source in config.sources]
    return [replace(one, share=share) for one, share in zip(found, shares_of(config.sources), strict=True)]


def _characters(prompt: Prompt) -> int:
    return -(-len(prompt.text) // CHARACTERS_A_TOKEN)


def _measure(source: SourceConfig, seed: int, golds: int, hub: bool, count: Callable[[Prompt], int]) -> SourcePrice:
    prompts, environment, tasks, where, problem = _some(source, seed, golds, hub)
    seconds: list[float] = []
    for prompt in prompts if not problem else ():
        try:
            gold = environment.gold(prompt)
            if gold is None:
                continue
            start = time.perf_counter()
            score = environment.score(prompt, gold)
            seconds.append(time.perf_counter() - start)
        except EnvironmentFailure as failure:
            problem = str(failure)
            break
        if score.reward != environment.reward_range[1]:
            problem = f"a gold gets {score.reward}: {score.status.value}: {score.reason}"
            break
    tokens = mean(map(count, prompts)) if prompts else 0.0
    return SourcePrice(
        source.label, environment.name, 0.0, tasks, where, tokens, mean(seconds) if seconds else None, len(seconds), problem
    )


def _some(source: SourceConfig, seed: int, golds: int, hub: bool) -> tuple[Sequence[Prompt], Environment, int | None, str, str]:
    """Return a few tasks, their environment, how many there are, what was looked at, and what is missing."""
    if source.dataset is None:
        with told_of(f"source {source.label!r}"):
            environment = load_environment(source.environment or "", **source.options)
        if not isinstance(environment, TaskSource):
            raise UsageError(f"source {source.label!r}: environment {source.environment!r} generates no tasks of its own")
        try:
            built = build_source(source, seed, 1)
            return [built.train(index) for index in range(golds)], built.environment, None, "generated", ""
        except EnvironmentFailure as failure:
            return [], environment, None, "generated", str(failure)
    where = "local" if source.data_dir is not None else "hub" if hub else "sample row"
    asked: dict[str, Any] = {"template": source.template, "options": source.options, "environment": source.environment}
    with told_of(f"source {source.label!r}"):
        if where == "sample row":
            rows = load_sample(source.dataset, **asked)
        else:
            rows = load(source.dataset, source.split, data_dir=source.data_dir, shots=source.shots, **asked)
    prompts: list[Prompt] = []
    problem = ""
    try:
        rows.environment.check()
    except EnvironmentFailure as failure:
        problem = str(failure)
    try:
        for row in range(len(rows)):
            if len(prompts) == golds:
                break
            try:
                prompts.append(rows[row])
            except RowError as error:
                if row > 100 * golds:
                    raise error
    except EnvironmentFailure as failure:
        problem = problem or str(failure)
    return prompts, rows.environment, None if where == "sample row" else len(rows), where, problem
