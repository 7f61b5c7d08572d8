"""The weighted mixture of sources: determines the next prompt from seed, step and the number of prompts drawn before."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol

from verigym.datasets_cfg.few_shot import FewShotTemplate
from verigym.datasets_cfg.load import PromptDataset, RowError
from verigym.datasets_cfg.load import load as load_dataset
from verigym.datasets_cfg.overlap import overlap
from verigym.datasets_cfg.rows import PreparedTask
from verigym.datasets_cfg.templates import load_template
from verigym.envs.composition.base import Composition
from verigym.envs.composition.operators import Gate, WeightedSum
from verigym.envs.contract.base import Environment, TaskSource
from verigym.envs.contract.errors import UsageError, error_context
from verigym.envs.contract.schema import Prompt
from verigym.envs.registry import load as load_environment
from verigym.envs.tools.environment import ToolEnvironment
from verigym.envs.tools.named import load_tools
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.rng import keyed_random
from verigym.trainer.tasks.chat_prompts import with_system
from verigym.trainer.tasks.curriculum import Curriculum

logger = logging.getLogger("verigym.trainer")

MOST_COMPARED = 50_000
"""A training split of more rows than this is not searched for held-out prompts."""
LOOK_ON = 100
"""Largest number of tasks that one draw skips because they are in a curriculum's easy or hard pool."""


class Tasks(Protocol):
    """Function from a number to a task of a source. A generator has endless tasks; a data set has a new order in each epoch."""

    def __call__(self, index: int) -> Prompt:
        """Return task number `index`."""


@dataclass(frozen=True)
class Source:
    """One source of the mixture, ready to draw from."""

    label: str
    environment: Environment
    weight: float
    train: Tasks
    held_out: Sequence[Prompt]
    min_share: float = 0.0
    endless: bool = False
    """Whether new tasks never run out; a data set repeats its tasks each epoch."""
    tasks: int | None = None
    """Number of tasks; None if endless."""


OpenRows = Callable[..., PromptDataset]
"""Opens a split of a data set, as `datasets_cfg.load` does."""


class Mixture:
    """Draws the prompts of a run from its sources, by their weights.

    A checkpoint saves `drawn`, the number of prompts drawn from each source, and the curriculum's state if there is one.
    """

    def __init__(self, sources: Sequence[Source], seed: int, curriculum: Curriculum | None = None) -> None:
        self.sources = tuple(sources)
        self.seed = seed
        self.curriculum = curriculum
        self.drawn = {source.label: 0 for source in sources}
        self.left_out = Counter[str]()
        """Number of prompts that were too long, by source, since the counter was last reset; not part of checkpoints."""

    def plan(self, step: int, count: int) -> list[Source]:
        """Return a source for each of `count` prompts of a step, chosen by systematic sampling of the sources' shares.

        The number of a source's prompts differs from its share of `count` by less than 1.

        Args:
            step: part of the randomness key.
            count: number of prompts.
        """
        bounds = list(accumulate(shares_of(self.sources)))
        offset = keyed_random(self.seed, "mixture", step).random()
        places = [bisect_right(bounds, (slot + offset) / count) for slot in range(count)]
        return [self.sources[min(place, len(self.sources) - 1)] for place in places]

    def draw(self, source: Source, fits: Callable[[Prompt], bool] | None = None) -> Prompt:
        """Return a source's next prompt.

        Args:
            source: one of the mixture's sources.
            fits: returns False for prompts to skip, because they are too long; None skips none.

        Raises:
            UsageError: 1,000 tasks in a row are skipped, or come from rows that do not have the data set's form.
        """
        curriculum = self.curriculum
        known = curriculum.revisit(source.label) if curriculum else None
        if known is not None:
            return source.train(known)
        passed_over = 0
        for _ in range(1000):
            index = self.drawn[source.label]
            self.drawn[source.label] += 1
            try:
                prompt = source.train(index)
            except RowError as error:
                # Validation before training reports bad rows; here one must not stop the run.
                logger.warning("passed over: %s", error)
                continue
            # Limited, because nearly every task may be easy or hard. Checked before `fits`, which is slower (it tokenizes).
            if curriculum and passed_over < LOOK_ON and not curriculum.is_normal(source.label, prompt.key):
                passed_over += 1
                continue
            if fits is not None and not fits(prompt):
                self.left_out[source.label] += 1
                continue
            if curriculum:
                curriculum.drew(source.label, prompt.key, index)
            return prompt
        raise UsageError(
            f"source {source.label!r}: 1,000 prompts in a row are longer than max_prompt_tokens or do not fit the data set"
        )

    def restore(self, drawn: Mapping[str, int]) -> None:
        """Continue from a checkpoint with `drawn` prompts of each source.

        Raises:
            UsageError: the checkpoint was made with other sources.
        """
        if set(drawn) != set(self.drawn):
            raise UsageError(f"the checkpoint has the sources {sorted(drawn)}, this run {sorted(self.drawn)}")
        self.drawn = dict(drawn)


class Weighed(Protocol):
    """Has a weight in the mixture: a source, or its configuration."""

    @property
    def weight(self) -> float:
        """Return the weight, relative to the other weights."""

    @property
    def min_share(self) -> float:
        """Return the least share of the prompts."""


def shares_of(sources: Sequence[Weighed]) -> list[float]:
    """Return each source's share of the prompts, by weight, but at least `min_share`. The shares add up to 1."""
    fixed: set[int] = set()
    while True:
        free = [number for number in range(len(sources)) if number not in fixed]
        weight = sum(sources[number].weight for number in free)
        left = 1.0 - sum(sources[number].min_share for number in fixed)
        shares = [
            source.min_share if number in fixed else left * source.weight / weight for number, source in enumerate(sources)
        ]
        short = {number for number in free if shares[number] < sources[number].min_share}
        if not short:
            return shares
        fixed |= short


def build_source(config: SourceConfig, seed: int, eval_prompts: int, given: Mapping[str, Environment] | None = None) -> Source:
    """Load a source's environment and tasks, and check that the environment can work on this machine.

    Args:
        config: the source.
        seed: key of the order of tasks.
        eval_prompts: number of held-out prompts.
        given: environments made in Python, by the name that `config.environment` uses; they take precedence over the registry.

    Raises:
        UsageError: as `make_source`, or the environment cannot work on this machine.
    """
    source = make_source(config, seed, eval_prompts, given)
    with error_context(f"source {config.label!r}"):
        source.environment.check()
    return source


def make_source(
    config: SourceConfig,
    seed: int,
    eval_prompts: int,
    given: Mapping[str, Environment] | None = None,
    open_rows: OpenRows = load_dataset,
) -> Source:
    """Load a source's environment and tasks, without checking that the environment can work on this machine.

    Args:
        config: the source.
        seed: key of the order of tasks.
        eval_prompts: number of held-out prompts.
        given: as `build_source` takes it.
        open_rows: opens a data set's splits.

    Raises:
        UsageError: an unknown name, a bad option, an environment that generates no tasks, or a row that does not fit.
    """
    with error_context(f"source {config.label!r}"):
        tasks: int | None = None
        if config.dataset is not None:
            environment, train, held_out, tasks = _from_dataset(config, seed, eval_prompts, open_rows)
        else:
            environment, train, held_out = _from_environment(config, seed, eval_prompts, given or {})
    return Source(config.label, environment, config.weight, train, held_out, config.min_share, tasks is None, tasks)


def _from_environment(
    config: SourceConfig, seed: int, eval_prompts: int, given: Mapping[str, Environment]
) -> tuple[Environment, Tasks, list[Prompt]]:
    name = config.environment or ""
    if name in given and config.options:
        raise UsageError(f"source {config.label!r}: environment {name!r} is given ready-made, so it takes no options here")
    inner: Any = given[name] if name in given else load_environment(name, **config.options)
    layers = composed(config, inner)
    environment: Any = layers[-1]
    template = FewShotTemplate(load_template(config.template)) if config.template else None

    def asked(split: str, key: int, index: int) -> Prompt:
        prompt: Prompt
        if config.graded_by is None and not config.tools:
            prompt = environment.prompt_at(split, key, index)
        else:
            prompt = as_graded(config, layers, inner.prompt_at(split, key, index))
        return with_system(
            config, template.apply(prompt, PreparedTask(prompt.text, {}, {}, prompt.text)) if template else prompt
        )

    if not isinstance(inner, TaskSource):
        raise UsageError(
            f"source {config.label!r}: environment {name!r} generates no tasks of its own; "
            f"give it a prompt_at(split, seed, index) method, or use a `dataset` that names it"
        )
    held_out: dict[str, Prompt] = {}
    # A small task space may hold fewer than `eval_prompts` different tasks.
    for index in range(20 * eval_prompts if config.eval_split else 0):
        prompt = asked(config.eval_split or "", 0, index)
        held_out.setdefault(prompt.key, prompt)
        if len(held_out) == eval_prompts:
            break

    def task(index: int) -> Prompt:
        return asked(config.split, seed, index)

    return environment, task, list(held_out.values())


def _from_dataset(
    config: SourceConfig, seed: int, eval_prompts: int, open_rows: OpenRows
) -> tuple[Environment, Tasks, list[Prompt], int]:
    data: dict[str, Any] = {"data_dir": config.data_dir, "options": config.options}
    data |= {"template": config.template, "shots": config.shots, "environment": config.environment}
    rows = open_rows(config.dataset or "", config.split, **data)
    if config.split in rows.config.evaluation_only:
        raise UsageError(
            f"source {config.label!r}: split {config.split!r} of data set {config.dataset!r} is for evaluation only; "
            f"train on another split, or use it as eval_split"
        )
    if not len(rows):
        raise UsageError(f"source {config.label!r}: split {config.split!r} has no rows")
    compositions = composed(config, rows.environment)

    def ask(prompt: Prompt) -> Prompt:
        return with_system(config, as_graded(config, compositions, prompt))

    held_out: list[Prompt] = []
    if config.eval_split:
        held_rows = open_rows(config.dataset or "", config.eval_split, **data)
        chosen = held_out_rows(config.label, len(held_rows), eval_prompts)
        held_out = [ask(held_rows[row]) for row in chosen]
        _warn_of_overlap(config.label, rows, held_rows, chosen)

    @lru_cache(maxsize=2)
    def order(epoch: int) -> list[int]:
        numbers = list(range(len(rows)))
        keyed_random(seed, "order", config.label, epoch).shuffle(numbers)
        return numbers

    def task(index: int) -> Prompt:
        epoch, place = divmod(index, len(rows))
        return ask(rows[order(epoch)[place]])

    return compositions[-1], task, held_out, len(rows)


def held_out_rows(label: str, of: int, count: int) -> list[int]:
    """Return the numbers of the rows that are held out, ascending. With a larger `count`, the same rows and more are held out.

    Args:
        label: label of the source.
        of: number of rows of the split.
        count: number of rows to hold out; all rows if there are fewer.
    """
    if count >= of:
        return list(range(of))
    random, chosen = keyed_random("held out", label), set[int]()
    while len(chosen) < count:
        chosen.add(random.randrange(of))
    return sorted(chosen)


def _warn_of_overlap(label: str, rows: PromptDataset, held_rows: PromptDataset, chosen: Sequence[int]) -> None:
    """Warn of held-out prompts that are also training prompts.

    Prompts are compared only if this takes seconds; `verigym validate` always compares all of them.
    """
    described = rows.config
    cheap = len(rows) <= MOST_COMPARED and described.adapter is None and not described.generated
    if cheap and rows.split != held_rows.split:  # sample rows stand for both splits
        shared = overlap(rows, held_rows, chosen)
        if shared is not None:
            logger.warning("source %r: %s", label, shared.describe())


def composed(config: SourceConfig, environment: Environment) -> list[Environment]:
    """Return the source's environment and the environments that wrap it, innermost first.

    The wrappers add rewards, the format gate and tools. If `config.graded_by` is set, the innermost environment is the one that
    it names, instead of `environment`.

    Raises:
        UsageError: a component is unknown, has a bad option or could outweigh the environment's own reward.
    """
    if config.graded_by is not None:
        environment = load_environment(config.graded_by.environment, **config.graded_by.options)
    layers = [environment]
    if config.add:
        parts = {name: load_environment(added.environment or name, **added.options) for name, added in config.add.items()}
        weights = {environment.name: 1.0, **{name: added.weight for name, added in config.add.items()}}
        if environment.name in parts:
            raise UsageError(
                f"source {config.label!r}: add names {environment.name!r}, which already grades it; give the added one "
                f"a name of its own, such as `add: {{second: {{environment: {environment.name}, ...}}}}`"
            )
        environments = {environment.name: environment, **parts}
        layers.append(WeightedSum(weights, environments, allow_shaping_to_dominate=config.added_may_dominate))
    if config.format is not None:
        condition = load_environment("format", **config.format)
        name = "graded" if layers[-1].name == "format" else layers[-1].name
        layers.append(Gate({"format": condition}, {name: layers[-1]}))
    if config.tools:
        tools = load_tools(config.tools)
        try:
            layers.append(ToolEnvironment(layers[-1], tools, **config.tool_options))
        except TypeError as error:
            raise UsageError(f"source {config.label!r}: tool_options: {error}") from None
    return layers


def as_graded(config: SourceConfig, layers: Sequence[Environment], prompt: Prompt) -> Prompt:
    """Convert `prompt`, a task of the source's own environment, into a task of the outermost environment, which will grade it.

    Args:
        config: the source.
        layers: from `composed`.
        prompt: the task.

    Raises:
        UsageError: the environment of `graded_by` needs a reference.
    """
    if config.graded_by is not None:
        prompt = layers[0].prompt(prompt.messages).model_copy(update={"metadata": prompt.metadata})
    for layer in layers[1:]:
        assert isinstance(layer, Composition | ToolEnvironment)
        prompt = layer.around(prompt)
    return prompt
