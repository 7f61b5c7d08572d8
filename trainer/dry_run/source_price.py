"""Cost of a suite: number of tasks, prompt tokens and seconds per verdict, measured on a few tasks of each source."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from verigym.datasets_cfg import PromptDataset, load, load_sample
from verigym.datasets_cfg.load import RowError
from verigym.envs import Prompt
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.tasks.mixture import make_source, shares_of

CHARACTERS_A_TOKEN = 4
"""Approximate number of characters per token, for English text and common tokenizers; used if no tokenizer is given."""


@dataclass(frozen=True)
class SourcePrice:
    """The measured cost of one source."""

    label: str
    environment: str
    share: float
    """Of the prompts."""
    tasks: int | None
    """Number of tasks; None if the environment generates tasks without end, or if the rows were not available."""
    where: str
    """What was measured: local, hub, generated or sample row."""
    prompt_tokens: float
    """Mean."""
    grade_s: float | None
    """Mean seconds of a verdict on a gold solution, in this process; None if no gold solution was judged."""
    graded: int
    """Golds that were judged."""
    problem: str = ""
    """Why this source cannot be trained on here, or which score a gold solution got instead of the maximum; empty if all is
    well."""


def price(
    config: TrainConfig,
    golds: int,
    hub: bool,
    count: Callable[[Prompt], int] | None = None,
    on_source: Callable[[int, int], None] = lambda done, total: None,
) -> list[SourcePrice]:
    """Measure the lengths of prompts and the time of verdicts for each source of a run; return one result per source.

    Args:
        config: the settings of the run.
        golds: most tasks to read, and most gold solutions to judge, for each source.
        hub: if True, data sets without local files are read from the hub. If False, the sample row in their description is
            measured instead.
        count: returns the number of tokens of a prompt; by default a quarter of its characters, rounded up.
        on_source: called with the number of sources measured and the number of all sources.

    Raises:
        UsageError: a source is described wrongly: an unknown name, a bad option, no such split or template.
    """
    found = []
    for source in config.sources:
        found.append(_measure(source, config.seed, golds, hub, count or _characters))
        on_source(len(found), len(config.sources))
    return [replace(one, share=share) for one, share in zip(found, shares_of(config.sources), strict=True)]


def _characters(prompt: Prompt) -> int:
    return -(-len(prompt.text) // CHARACTERS_A_TOKEN)


def _measure(source: SourceConfig, seed: int, golds: int, hub: bool, count: Callable[[Prompt], int]) -> SourcePrice:
    rows = _Rows(sample=source.data_dir is None and not hub)
    built = make_source(source, seed, golds, open_rows=rows)
    problem = ""
    try:
        built.environment.check()
    except EnvironmentFailure as failure:
        problem = str(failure)
    if source.dataset is None:
        environment, tasks, where = built.environment, None, "generated"
        prompts = [built.train(index) for index in range(golds)]
    else:
        # Golds are the data set's own, which need not please what the source adds to its reward.
        opened = rows.opened[source.split]
        environment, tasks = opened.environment, None if rows.sample else len(opened)
        where = "sample row" if rows.sample else "local" if source.data_dir is not None else "hub"
        prompts = _first(opened, golds)
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


@dataclass
class _Rows:
    """Opens each split once; if `sample` says so, the sample row of the data set's description replaces the rows."""

    sample: bool
    opened: dict[str, PromptDataset] = field(default_factory=dict)

    def __call__(self, name_or_path: str, split: str, /, **how: Any) -> PromptDataset:
        if self.sample:
            row = {name: how[name] for name in ("options", "template", "environment")}
            return self.opened.setdefault(split, load_sample(name_or_path, **row))
        if split not in self.opened:
            self.opened[split] = load(name_or_path, split, **how)
        return self.opened[split]


def _first(rows: PromptDataset, count: int) -> list[Prompt]:
    """Return the first `count` tasks of `rows`, leaving out rows that do not fit their description.

    Raises:
        RowError: too few of very many rows at the beginning are usable.
    """
    prompts: list[Prompt] = []
    for row in range(len(rows)):
        if len(prompts) == count:
            break
        try:
            prompts.append(rows[row])
        except RowError:
            if row > 100 * count:
                raise
    return prompts
