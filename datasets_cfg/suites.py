"""Suites: YAML files of mixtures, with weights, rewards, training defaults and sets to measure on."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from verigym.datasets_cfg.load import SUFFIXES, load_config
from verigym.datasets_cfg.schema import LocalFile
from verigym.datasets_cfg.templates import load_template
from verigym.datasets_cfg.yamlfile import Document, Loc, checked, parse, text_of
from verigym.envs import UsageError
from verigym.envs.contract.errors import did_you_mean, error_context
from verigym.envs.contract.settings import Settings


class AddedReward(Settings):
    """A reward that is added to the reward of a source's environment, such as one for language or length."""

    weight: float = Field(allow_inf_nan=False)
    """Factor on the reward. It is negative for a punishment; with 0 the reward is only reported. The source's own reward has
    weight 1, and all added weights together must be less than 1, unless added_may_dominate is set."""
    environment: str | None = None
    """Registry name of the environment, or module:Class. By default it is the key in `add`; to add one environment twice, give
    it here under two keys."""
    options: Mapping[str, Any] = {}
    """Options of its environment."""


class GradedBy(Settings):
    """An environment that needs no reference, such as a reward model, and grades in place of the source's own environment."""

    environment: str
    """Registry name, or module:Class."""
    options: Mapping[str, Any] = {}
    """Its options."""


class SuiteSource(Settings):
    """One source of the mixture: an environment that generates tasks, or a data set with its environment."""

    environment: str | None = None
    """Registry name or module:Class of an environment. Without `dataset`, it generates the tasks; with it, the environment
    grades the data set's rows in place of the data set's own."""
    dataset: str | None = None
    """Name or path of a data-set configuration. Give this or `environment`, or both."""
    options: Mapping[str, Any] = {}
    """Options of the environment."""
    format: Mapping[str, Any] | None = None
    """Options of the `format` environment. If given, that environment is the gate of this source's reward: a completion of
    the wrong format gets the floor. null: no gate."""
    graded_by: GradedBy | None = None
    """Environment, such as {environment: reward_model}, that judges the completions. The source's own environment then only
    provides the tasks."""
    add: Mapping[str, AddedReward] = {}
    """Name -> reward that is added to this source's own reward, as in {language: {weight: 0.1}}. The gate `format` applies to
    the sum."""
    added_may_dominate: bool = False
    """Whether added rewards may together weigh as much as the source's own reward or more, as they do in DeepSeek-R1."""
    tools: Mapping[str, Mapping[str, Any]] = {}
    """Tools that the model may call in episodes of several turns, with their options: {calculator: {}, python: {wall_s: 5}}."""
    tool_options: Mapping[str, Any] = {}
    """With tools: max_calls, max_turn_s, max_reply_chars and calls, as `ToolEnvironment` takes them."""
    reward_scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Factor on this source's whole reward in training. If a KL penalty is part of the reward, a larger factor makes the
    penalty matter less."""
    template: str | None = None
    """Prompt template, such as r1-zero or maths:de; see docs/datasets.md. When left out, tasks that an environment generates
    for a chat model get one that asks for the answer's form; `chat` adds nothing."""
    system: str | None = None
    """System message before each prompt of this source. Prompts that have one already, such as those of template boxed, are
    refused, and so are chat templates without a place for it."""
    shots: int = Field(default=0, ge=0, le=64)
    """With a data set: number of examples before each task, drawn from the train split by a hash of the task."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Share of the prompts of a step, relative to the other sources' weights."""
    min_share: float = Field(default=0.0, ge=0, le=1)
    """Minimum share of the prompts of a step, even if `weight` alone would give this source fewer."""
    name: str | None = None
    """Name in the logs; the environment's or data set's name by default."""
    split: str = "train"
    """Split to train on."""
    eval_split: str | None = "test"
    """Held-out split to evaluate on; null for none."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.environment is None and self.dataset is None:
            raise ValueError("a source has an `environment` that writes its tasks, or a `dataset`")
        if self.added_may_dominate and not self.add:
            raise ValueError("added_may_dominate is about added rewards, and `add` names none")
        if self.tool_options and not self.tools:
            raise ValueError("tool_options is about tools, and `tools` names none")
        if self.shots and self.dataset is None:
            raise ValueError("shots are rows of a data set; this source writes its own tasks")
        if self.eval_split == self.split:
            raise ValueError(f"split and eval_split are both {self.split!r}; evaluation needs tasks that are held out")
        return self

    @property
    def label(self) -> str:
        """The source's name in the logs."""
        return self.name or self.dataset or self.environment or ""


class Curriculum(Settings):
    """Settings for how often tasks are repeated, by their difficulty. Fields that are None keep the trainer's defaults."""

    hard_share: float | None = Field(None, ge=0, le=1)
    """Share of a source's prompts that are known to be hard."""
    easy_share: float | None = Field(None, ge=0, le=1)
    """Share of a source's prompts that are known to be easy."""
    hard_below: float | None = Field(None, ge=0, le=1)
    """A task with a pass rate of at most this is hard."""
    easy_above: float | None = Field(None, ge=0, le=1)
    """A task with a pass rate of at least this is easy."""


class MeasuredSet(Settings):
    """A data set to evaluate on before and after training."""

    dataset: str
    """Name or path of a data set."""
    split: str = "test"
    """Its split."""
    template: str | None = None
    """Prompt template to use instead of the data set's own."""
    shots: int = Field(default=0, ge=0, le=64)
    """Examples before each task."""


class Suite(Settings):
    """A mixture to train on, as its YAML file describes it."""

    name: str
    """Short name."""
    description: str
    """One sentence."""
    source: str = ""
    """The paper or report that it follows."""
    note: str = ""
    """Where it departs from that, and what it needs."""
    sources: tuple[SuiteSource, ...] = Field(min_length=1)
    """The mixture."""
    curriculum: Curriculum | None = None
    """Sorting of tasks by their pass rate; null for none."""
    train: Mapping[str, Any] = {}
    """Default fields of a training run's configuration. Fields that the run itself sets take precedence."""
    measure: tuple[MeasuredSet, ...] = ()
    """Sets to measure on."""
    _document: Document | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        labels = [source.label for source in self.sources]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"sources: two are called {label!r}; give one a `name`")
        if sum(source.min_share for source in self.sources) > 1:
            raise ValueError("sources: the min_share add up to more than 1")
        return self

    def fields(self, data_dir: Path | None = None) -> dict[str, Any]:
        """Return the suite's settings for a training run, as fields of the run's configuration.

        Args:
            data_dir: folder of local files. A data set whose files are all in it is read there, any other from the hub.

        Raises:
            UsageError: `data_dir` is not a folder, or a data set is unknown or has no such split; the message names the line if
                the suite comes from a file.
        """
        if data_dir is not None and not data_dir.is_dir():
            raise UsageError(f"data_dir {data_dir} is no folder; name that of the local files, or none to read from the hub")
        sources = []
        for number, source in enumerate(self.sources):
            fields = source.model_dump(exclude_defaults=True)
            if source.dataset is not None:
                context = f"source {source.label!r}"
                with self._at("sources", number, "dataset"), error_context(context):
                    load_config(source.dataset)
                files = []
                for field, split in (("split", source.split), ("eval_split", source.eval_split)):
                    if split is not None:
                        with self._at("sources", number, field), error_context(context):
                            files.append(check_split(source.dataset, split))
                if data_dir is not None and all(file is not None and file.parts(data_dir) for file in files):
                    fields["data_dir"] = str(data_dir)
            sources.append(fields)
        found = {**self.train, "sources": sources}
        if self.curriculum is not None:
            found |= {"curriculum": True, **self.curriculum.model_dump(exclude_none=True)}
        return found

    def check_measured(self) -> None:
        """Check that the data sets to evaluate on, their splits and their templates exist.

        Raises:
            UsageError: one does not exist; the message names the line if the suite comes from a file.
        """
        for number, measured in enumerate(self.measure):
            with self._at("measure", number, "dataset"):
                load_config(measured.dataset)
            with self._at("measure", number, "split"):
                check_split(measured.dataset, measured.split)
            if measured.template:
                with self._at("measure", number, "template"):
                    load_template(measured.template)

    def _at(self, *loc: int | str) -> AbstractContextManager[None]:
        return error_context(self._document.place(loc)) if self._document else nullcontext()


def check_split(dataset: str, split: str) -> LocalFile | None:
    """Return the local file of `split`, or None if the split is on the hub only or generated.

    Raises:
        UsageError: the data set is unknown, or has no such split.
    """
    config = load_config(dataset)
    if split not in config.splits:
        raise UsageError(f"data set {dataset!r} has no split {split!r}{did_you_mean(split, config.splits)}")
    return config.files.get(split)


def available_suites() -> list[str]:
    """Return the names of the suites that come with the package."""
    files = importlib.resources.files("verigym.datasets_cfg").joinpath("suites").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def suite_text(name_or_path: str | Path) -> str:
    """Return the YAML text of a suite: one of `available_suites()`, or the user's own YAML file.

    Raises:
        UsageError: there is no such suite, or the file cannot be read.
    """
    name = str(name_or_path)
    if name in available_suites():
        return importlib.resources.files("verigym.datasets_cfg").joinpath("suites", f"{name}.yaml").read_text(encoding="utf-8")
    if not name.endswith(SUFFIXES):
        raise UsageError(
            f"no suite is called {name!r}{did_you_mean(name, available_suites(), 'verigym suite list')}; or give a .yaml file"
        )
    return text_of(name)


def load_suite(name_or_path: str | Path) -> Suite:
    """Return a suite: one of `available_suites()`, or the user's own YAML file.

    Raises:
        UsageError: there is no such suite, or it does not follow the schema; the message names file, line and field.
    """
    document = suite_document(name_or_path)
    suite = checked(Suite, document.fields, document)
    suite._document = document
    return suite


def suite_document(name_or_path: str | Path) -> Document:
    """Return a suite's fields, and the file and line of each.

    Raises:
        UsageError: there is no such suite, or it is not YAML.
    """
    return parse(suite_text(name_or_path), str(name_or_path), "name, description and sources")


def run_places(document: Document) -> dict[Loc, str]:
    """Return where a suite sets each field of a run (see `Suite.fields`), as a mapping of the field's path to file and line."""
    moved = {loc[1:]: place for loc, place in document.places.items() if loc[0] in ("train", "curriculum") and loc[1:]}
    return moved | {loc: place for loc, place in document.places.items() if loc[0] in ("sources", "curriculum")}
