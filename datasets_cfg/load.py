"""`load` and `PromptDataset`: the prompts of a data set's split, read from the hub or from local files."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from verigym.datasets_cfg.few_shot import FewShotTemplate
from verigym.datasets_cfg.fields import FieldProblem
from verigym.datasets_cfg.reading import FileMismatch, hub_rows, local_rows
from verigym.datasets_cfg.rows import PreparedTask, make_task
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.datasets_cfg.templates import Template, load_template
from verigym.datasets_cfg.yamlfile import parse, read, text_of
from verigym.envs import Environment, Prompt, TaskSource, UsageError
from verigym.envs import load as load_environment
from verigym.envs.contract.errors import did_you_mean, error_context
from verigym.envs.registry import origin

SUFFIXES = (".yaml", ".yml")


class RowError(UsageError):
    """Raised when a row does not fit its data set's description."""

    def __init__(self, dataset: str, split: str, row: int, field: str, reason: str) -> None:
        super().__init__(f"data set {dataset!r}, split {split!r}, row {row + 1}: field {field!r} {reason}")
        self.row = row
        """Index of the row in the data set, from 0. The message counts rows from 1."""
        self.field = field
        self.reason = reason


def available() -> list[str]:
    """Return the names of the data sets that come with the package."""
    files = importlib.resources.files("verigym.datasets_cfg").joinpath("sets").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_config(name_or_path: str | Path) -> DatasetConfig:
    """Return a data set's description: one of `available()`, or the user's own YAML file.

    Raises:
        UsageError: there is no such data set, or the file does not follow the schema; the message names file, line and field.
    """
    text = description(name_or_path)
    return read(text, str(name_or_path), DatasetConfig, "name, files and prompt")


def description(name_or_path: str | Path) -> str:
    """Return the YAML text of a data set's description.

    Raises:
        UsageError: there is no such data set, or the file cannot be read.
    """
    name = str(name_or_path)
    if name in available():
        return importlib.resources.files("verigym.datasets_cfg").joinpath("sets", f"{name}.yaml").read_text(encoding="utf-8")
    if isinstance(name_or_path, Path) or name.endswith(SUFFIXES):
        return text_of(name)
    head, split = named_split(name)
    if split and _is_named(head):
        raise UsageError(f"{name!r} names a split, which does not belong here; give {head!r}, and the split in its own field")
    if os.path.isfile(name):
        raise UsageError(f"{name} is no description; write a .yaml file that names it under `files` (docs/datasets.md)")
    beside = next((f"{head}{suffix}" for suffix in SUFFIXES if os.path.isfile(f"{head}{suffix}")), None)
    hint = f"; did you mean the file {beside}?" if beside else did_you_mean(head, available(), "verigym datasets list")
    raise UsageError(f"no data set is called {name!r}{hint}; or give the path of a .yaml file")


def named_split(given: str, split: str | None = None, flag: str = "--split") -> tuple[str, str | None]:
    """Return (data set, split) of `given`, which is NAME or NAME:SPLIT. For a NAME alone, the split is the argument `split`.

    Args:
        given: NAME, or NAME:SPLIT. A path that ends in .yaml is a NAME even if it contains colons.
        split: the split that a command-line option names; None if the option is not given.
        flag: name of this option, for messages.

    Raises:
        UsageError: the part before or after the colon is empty, or `given` and `split` name different splits.
    """
    if ":" not in given or given.endswith(SUFFIXES):
        return given, split
    name, _, own = given.rpartition(":")
    if not name or not own:
        raise UsageError(f"{given!r}: expected the name of a data set or NAME:SPLIT, such as gsm8k:test")
    if split is not None and split != own:
        raise UsageError(f"{given} and {flag} {split} name two splits; give one")
    return name, own


def _is_named(name: str) -> bool:
    return name.endswith(SUFFIXES) or name in available()


class PromptDataset(Sequence[Prompt]):
    """The prompts of one split, made from its rows on access. The same row always gives the same key."""

    def __init__(
        self,
        config: DatasetConfig,
        split: str,
        rows: Sequence[Mapping[str, Any]],
        environment: Environment,
        source: str = "",
        template: FewShotTemplate | None = None,
    ) -> None:
        self.config = config
        self.split = split
        self.environment = environment
        self.source = source or config.name
        """The file or hub repository that the rows come from, for messages."""
        self.template = template
        """The template and the examples, where there is a template."""
        self._rows = rows

    def __repr__(self) -> str:
        return f"<{self.config.name}/{self.split}: {len(self)} prompts for {self.environment.grader}>"

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Prompt: ...
    @overload
    def __getitem__(self, index: slice) -> list[Prompt]: ...
    def __getitem__(self, index: int | slice) -> Prompt | list[Prompt]:
        """Return the prompt of the row at `index`; for a slice, a list of prompts.

        Raises:
            RowError: the row does not fit; the message names data set, split, row and field.
        """
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self._prompt(position)

    def _prompt(self, position: int) -> Prompt:
        prompt, task = self.bare(position)
        if self.template is None:
            return prompt
        try:
            return self.template.apply(prompt, task)
        except FieldProblem as problem:
            raise RowError(self.config.name, self.split, position, problem.field, str(problem)) from None

    def _row(self, position: int) -> Mapping[str, Any]:
        try:
            return self._rows[position]
        except UnicodeDecodeError as error:  # JsonRows and `datasets` decode a text only when its row is read
            reason = f"is not UTF-8: {error.reason}; save {self.source} as UTF-8"
            raise RowError(self.config.name, self.split, position, "(any)", reason) from None

    def first(self, count: int) -> PromptDataset:
        """Return a data set of the first `count` rows."""
        rows = [self._row(row) for row in range(min(count, len(self)))]
        return type(self)(self.config, self.split, rows, self.environment, self.source, self.template)

    def task(self, position: int) -> PreparedTask:
        """Return the task in row `position`, from which the environment makes a prompt.

        Raises:
            RowError: the row does not fit.
        """
        try:
            return make_task(self.config, self._row(position))
        except FieldProblem as problem:
            raise RowError(self.config.name, self.split, position, problem.field, str(problem)) from None

    def bare(self, position: int) -> tuple[Prompt, PreparedTask]:
        """Return the prompt of row `position` without a template, and the task from which it was made.

        Raises:
            RowError: the row does not fit.
        """
        config, task = self.config, self.task(position)
        metadata = {"dataset": config.name, "split": self.split, "row_index": position, **task.metadata}
        try:
            return self.environment.prompt(task.text, metadata=metadata, **task.reference), task
        except ValueError as error:  # a UsageError, or metadata that JSON cannot carry
            raise RowError(config.name, self.split, position, config.gold, str(error)) from None


class GeneratedDataset(PromptDataset):
    """Tasks that an environment generates, as a sequence of prompts. The same position always gives the same task."""

    def task(self, position: int) -> PreparedTask:
        """Return the task at `position`."""
        return self.bare(position)[1]

    def bare(self, position: int) -> tuple[Prompt, PreparedTask]:
        """Return the prompt of the task at `position`, and the task."""
        environment: Any = self.environment
        made: Prompt = environment.prompt_at(self.split, 0, position)
        where = {"dataset": self.config.name, "split": self.split, "row_index": position}
        prompt = made.model_copy(update={"metadata": {**made.metadata, **where}})
        return prompt, PreparedTask(made.text, {}, {}, made.text, self.config.worked)


def load(
    name_or_path: str | Path,
    split: str,
    *,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
    cache_dir: str | Path | None = None,
    template: str | None = None,
    shots: int = 0,
    shots_split: str = "train",
    environment: str | None = None,
) -> PromptDataset:
    """Open one split of a data set and return its prompts.

    Args:
        name_or_path: one of `available()`, or the path of a YAML file.
        split: a split that the description lists.
        data_dir: read the description's local files in this folder instead of the hub.
        limit: use only this many rows, the first.
        options: environment options, which override the description's.
        cache_dir: where the package `datasets` caches converted files; by default its own folder.
        template: a prompt template, which overrides the description's; see `templates.py`.
        shots: number of examples before each task. They are drawn by a hash of the task and never include the task itself.
        shots_split: the split from which examples are drawn.
        environment: grades the rows in place of the description's environment; its reference must have the same fields.

    Raises:
        UsageError: the data set, split, template or file does not exist, cannot be read or cannot be reached.
    """
    config = load_config(name_or_path)
    grading = grading_environment(config, environment, options, name_or_path)
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit}: expected at least 1 row")
    if shots and shots_split in config.evaluation_only:
        raise UsageError(f"data set {config.name!r}: split {shots_split!r} is for evaluation only; draw examples from another")
    chosen = template or config.template or ("chat" if shots else None)
    wording = None if chosen is None else _wording(chosen, template, name_or_path)  # before the rows, which may take long
    cache = None if cache_dir is None else str(cache_dir)
    rows = _open(name_or_path, config, split, data_dir, cache, grading)
    if wording is not None:
        examples = _open(name_or_path, config, shots_split, data_dir, cache, grading) if shots else None
        rows.template = FewShotTemplate(wording, shots, examples)
    return rows if limit is None else rows.first(limit)


def grading_environment(
    config: DatasetConfig, name: str | None, options: Mapping[str, Any] | None, place: str | Path | None = None
) -> Environment:
    """Return the environment that grades a data set: the data set's own, or the environment called `name`.

    Args:
        config: the data set's description.
        name: name of another environment; None for the data set's own.
        options: environment options, which override the description's.
        place: name or path of the description; an error in it is then reported with its file and line.

    Raises:
        UsageError: the data set's own environment generates its tasks, so that no other can grade them; there is no such
            environment; or an option is invalid.
    """
    if name is None and place is not None:
        with error_context(place_of(place, "environment")):
            origin(config.environment)
        if config.options and not options:
            with error_context(place_of(place, "options")):
                return load_environment(config.environment, **config.options)
    if name is not None and name != config.environment and config.generated:
        raise UsageError(f"data set {config.name!r}: {config.environment!r} writes its tasks, so {name!r} cannot grade them")
    return load_environment(name or config.environment, **{**config.options, **(options or {})})


def load_sample(
    name_or_path: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    template: str | None = None,
    environment: str | None = None,
) -> PromptDataset:
    """Return a small data set for a preview: the sample row in the description, or the first three generated tasks.

    Tasks are generated if the description has the field `generated`.

    Raises:
        UsageError: the description has no sample row, or it cannot be read.
    """
    config = load_config(name_or_path)
    grading = grading_environment(config, environment, options, name_or_path)
    chosen = template or config.template
    wording = None if chosen is None else FewShotTemplate(_wording(chosen, template, name_or_path))
    if config.generated:
        rows = _generated(config, next(iter(config.generated)), grading).first(3)
        rows.template = wording
        return rows
    if not config.sample_row:
        raise UsageError(
            f"data set {config.name!r} has no sample_row; give --data-dir to read its local files, or --split to read the hub"
            if config.hub
            else f"data set {config.name!r} has no sample_row; give --data-dir, the folder of its local files"
        )
    return PromptDataset(config, "sample", [config.sample_row], grading, f"{config.name}'s sample_row", wording)


def _open(
    place: str | Path,
    config: DatasetConfig,
    split: str,
    data_dir: str | Path | None,
    cache: str | None,
    environment: Environment,
) -> PromptDataset:
    if config.generated:
        return _generated(config, split, environment)
    _check_reference(place, config, environment)
    if data_dir is None:
        rows = hub_rows(config, split, cache)
        source = f"{config.hub.path} on the hub" if config.hub else config.name
    else:
        try:
            rows = local_rows(config, split, Path(data_dir), cache)
        except FileMismatch as problem:
            if problem.field == "path" and str(place) in available():  # a path of ours is right; the folder is another
                raise UsageError(str(problem)) from None
            raise UsageError(f"{place_of(place, 'files', split, problem.field)}: {problem}") from None
        source = str(Path(data_dir) / config.files[split].path)
    _check_columns(place, config, rows.column_names, source)
    return PromptDataset(config, split, rows, environment, source)


def _wording(chosen: str, given: str | None, place: str | Path) -> Template:
    """Return a template; one that the description names is looked for at its line there."""
    if given:
        return load_template(chosen)
    with error_context(place_of(place, "template")):
        return load_template(chosen)


def _check_columns(place: str | Path, config: DatasetConfig, there: Sequence[str], source: str) -> None:
    """Refuse a description with a column that no row has: it is the description that does not fit, not the rows."""
    for column in config.all_columns:
        parts = column.split(".")
        starts = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        if there and starts.isdisjoint(there):
            field = ("columns", column) if column in config.columns else ("shape",)
            raise UsageError(
                f"{place_of(place, *field)}: no row of {source} has a column {column!r}{did_you_mean(column, there)}"
            )


def _check_reference(place: str | Path, config: DatasetConfig, environment: Environment) -> None:
    """Refuse a description whose reference has unknown fields, or lacks required ones."""
    known = getattr(getattr(environment, "reference_type", None), "model_fields", None)
    if known is None:  # not a BaseEnvironment: `prompt` will check each row
        return
    for part, fields in (("reference", config.reference), ("fixed", config.fixed)):
        for field in fields:
            if field not in known:
                reason = f"unknown field '{part}.{field}' for environment {config.environment!r}{did_you_mean(field, known)}"
                raise UsageError(f"{place_of(place, part, field)}: {reason}")
    for field, column in config.reference.items():
        if column.optional and known[field].is_required():
            reason = f"'reference.{field}' is optional, and environment {config.environment!r} needs it; leave `optional` out"
            raise UsageError(f"{place_of(place, 'reference', field)}: {reason}")
    lacking = [
        field for field, info in known.items() if info.is_required() and field not in {**config.reference, **config.fixed}
    ]
    if lacking and not config.adapter:
        needed = f"environment {config.environment!r} needs the field 'reference.{lacking[0]}'"
        raise UsageError(f"{place_of(place, 'reference')}: {needed}")


def place_of(description_of: str | Path, *loc: str) -> str:
    """Return, as `file:line`, where a description sets the field at the path `loc`.

    If the field is not set, return the place of the nearest enclosing field that is set.
    """
    return parse(description(description_of), str(description_of)).place(loc)


def _generated(config: DatasetConfig, split: str, environment: Environment) -> GeneratedDataset:
    if split not in config.generated:
        raise UsageError(f"data set {config.name!r} has no split {split!r}{did_you_mean(split, config.generated)}")
    if not isinstance(environment, TaskSource):
        raise UsageError(f"data set {config.name!r}: environment {config.environment!r} writes no tasks of its own")
    rows: Sequence[Any] = range(config.generated[split])
    return GeneratedDataset(config, split, rows, environment, f"generated by {environment.grader}")
