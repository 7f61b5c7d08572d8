"""Finds the tasks of samples that give only a task id in the rows of a data set: `verigym grade --data humaneval`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from verigym.datasets_cfg import load, load_config
from verigym.datasets_cfg.fields import MISSING, FieldProblem, describe, find
from verigym.datasets_cfg.load import PromptDataset, named_split
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.envs import Environment, Prompt, UsageError
from verigym.envs.contract.errors import EnvironmentFailure, did_you_mean
from verigym.grade.manifest import fingerprint
from verigym.grade.reading.completions import RESPONSES, TEXTS

TASK_ID = "task_id"
ROW_INDEX = "row_index"
NAMED = 1000
"""Most ids that are listed; all are counted."""
STANDARD = ("completion", "solution")
"""Columns of completions in standard sample files: `completion` of HumanEval holds the code that continues the prompt,
`solution` of EvalPlus holds a whole program."""
FENCES = ("```", "~~~")


class DataJob(BaseModel):
    """The data set whose tasks the samples answer, and how a sample names its task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """One that comes with verigym, or a YAML file."""
    split: str | None = None
    data_dir: Path | None = None
    id_column: str
    """Column of the samples that holds the task id; `COLUMN=FIELD` if the data set's field has another name. The field
    `row_index` means the number of the row in the data set, from 0."""

    @property
    def column(self) -> str:
        """The column of the samples that holds the task's id."""
        return self.id_column.partition("=")[0]

    @property
    def field(self) -> str:
        """The field of the data set that holds the tasks' ids.

        Empty if none was named: then the field is `task_id`, or has the same name as the samples' column.
        """
        return self.id_column.partition("=")[2]


class Joined(BaseModel):
    """Counts of how many ids in the samples matched a task of the data set, and how many ids and tasks had no match."""

    model_config = ConfigDict(frozen=True)

    data: str
    tasks: int
    without_sample: int
    ids_without_sample: tuple[str, ...]
    """The first NAMED."""
    unknown_ids: dict[str, int]
    """Maps ids that the data set does not have to the number of their samples; only the first NAMED ids."""


def data_job(
    name: str | None,
    id_column: str | None,
    split: str | None,
    data_dir: Path | None,
    *,
    with_data: Mapping[str, Any],
    without_data: Mapping[str, Any],
) -> DataJob | None:
    """Return the data set named on the command line, or None if `name` is None.

    Args:
        name: the data set, or NAME:SPLIT.
        id_column: column of the samples that holds the task's id.
        split: the split that the tasks are in.
        data_dir: folder with the data set's local files.
        with_data: flags, with their values, that need a data set.
        without_data: flags, with their values, that have no effect with a data set.

    Raises:
        UsageError: an option is missing, or has no effect.
    """
    useless = next((flag for flag, value in (with_data if name is None else without_data).items() if value), None)
    if name is None:
        if useless:
            raise UsageError(f"{useless} needs --data NAME")
        return None
    if useless:
        raise UsageError(f"{useless} does nothing with --data, whose rows give prompt and reference; leave it out")
    if not id_column:
        raise UsageError(
            f"--data {name} needs --id-column COLUMN: the column of the input that names a task, such as {TASK_ID}"
        )
    dataset, split = named_split(name, split)
    return DataJob(name=dataset, split=split, data_dir=data_dir, id_column=id_column)


class Tasks:
    """The prompts of a data set, which are found by the ids of its rows.

    Raises:
        UsageError: the data set cannot be read, a row has no id, or two rows have the same id.
    """

    def __init__(self, job: DataJob, environment: str | None, options: Mapping[str, Any]) -> None:
        config = load_config(job.name)
        self.split = _split(config, job.split)
        self.column = job.column
        self._rows: PromptDataset = load(job.name, self.split, data_dir=job.data_dir, options=options, environment=environment)
        self.name = f"{config.name}/{self.split}"
        self.options = {**config.options, **options}
        """What the environment was loaded with."""
        self._files = [] if job.data_dir is None or not config.files else config.files[self.split].parts(job.data_dir)
        self._revision = config.hub.revision if config.hub and job.data_dir is None else None
        self._positions = _positions(self._rows, job.field, self.column, self.name)
        self._seen: set[int] = set()
        self._unknown: Counter[str] = Counter()
        self._last: tuple[int, Prompt] | None = None

    @property
    def environment(self) -> Environment:
        """The environment that grades the tasks."""
        return self._rows.environment

    def __len__(self) -> int:
        return len(self._rows)

    def described(self) -> dict[str, Any]:
        """Return the data set's name, number of rows, revision and file hashes, to be stored beside the scores."""
        found = {"name": self.name, "rows": len(self), "hub_revision": self._revision}
        files = [fingerprint(path) for path in self._files]
        return {**found, "file": files[0] if len(files) == 1 else files or None}

    def prompt(self, row: Mapping[str, Any]) -> Prompt:
        """Return the task whose id is in `row`.

        Raises:
            FieldProblem: `row` has no id, or no task has this id.
        """
        found = find(row, self.column)
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise FieldProblem(self.column, f"{describe(found)}; expected the id of a task of {self.name}")
        position = self._positions.get(str(found), self._positions.get(str(found).rpartition("/")[2]))
        if position is None:
            if len(self._unknown) < NAMED or str(found) in self._unknown:
                self._unknown[str(found)] += 1
            hint = did_you_mean(str(found), list(self._positions)[:3] if len(self) > NAMED else self._positions)
            near = hint if "did you mean" in hint else f"; its {len(self):,} ids are like {next(iter(self._positions))!r}"
            raise FieldProblem(self.column, f"names the task {str(found)[:80]!r}, which {self.name} does not have{near}")
        self._seen.add(position)
        if self._last is None or self._last[0] != position:
            self._last = position, self._rows[position]
        return self._last[1]

    def joined(self) -> Joined:
        """Return the counts of tasks without a sample, and of ids in the samples without a task."""
        lacking = [name for name, position in self._positions.items() if position not in self._seen]
        return Joined(
            data=self.name,
            tasks=len(self),
            without_sample=len(lacking),
            ids_without_sample=tuple(lacking[:NAMED]),
            unknown_ids=dict(self._unknown),
        )


def completion_columns(job: DataJob | None) -> tuple[str, ...]:
    """Return the column names to look for if the user names no column of completions.

    The name `solution` is among them only for a data set of programs.
    """
    programs = job is not None and load_config(job.name).environment == "code"
    return (*TEXTS, *(STANDARD[1:] if programs else ()), *RESPONSES)


def reading_options(job: DataJob, environment: str | None, column: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return the environment options for a file of generated programs in the format of HumanEval or EvalPlus.

    In such a file the texts are programs without code fences, and a column `completion` holds only the text that follows the
    task's code. For any other file, return an empty dictionary.

    Args:
        job: the data set.
        environment: name of the environment that grades in place of the data set's own; None for its own.
        column: the column that holds the completions.
        texts: the first completions. If only some of them have code fences, programs with and without fences are accepted.
    """
    if column not in STANDARD or (environment or load_config(job.name).environment) != "code":
        return {}
    fenced = [any(fence in text for fence in FENCES) for text in texts]
    if not fenced or all(fenced):
        return {}
    continued = {"continue_prefix": True} if column == STANDARD[0] else {}
    return {"extract": "fenced_or_all" if any(fenced) else "all", **continued}


def check_usable(environment: Environment) -> None:
    """Check that everything that `environment` needs is available on this machine.

    Raises:
        UsageError: something is missing; the message says what.
    """
    try:
        environment.check()
    except EnvironmentFailure as failure:
        raise UsageError(f"environment {environment.name!r} cannot be used here: {failure.message}") from None


def _split(config: DatasetConfig, wanted: str | None) -> str:
    splits = config.splits
    if wanted is not None:
        if wanted not in splits:
            raise UsageError(f"--split: data set {config.name!r} has no split {wanted!r}{did_you_mean(wanted, splits)}")
        return wanted
    chosen: Sequence[str] = splits if len(splits) == 1 else config.evaluation_only
    if len(chosen) != 1:
        raise UsageError(f"data set {config.name!r} has the splits {', '.join(splits)}; pass --split")
    return chosen[0]


def _positions(rows: PromptDataset, field: str, column: str, name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for position in range(len(rows)):
        prompt, task = rows.bare(position)
        value = position if field == ROW_INDEX else prompt.metadata.get(field or TASK_ID, find(task.row, field or column))
        if value is MISSING or isinstance(value, bool) or not isinstance(value, str | int):
            known = sorted({ROW_INDEX, *task.row, *prompt.metadata} - {"dataset", "split"})
            raise UsageError(
                f"row {position + 1} of {name} has no id {field or column!r}; --id-column {column}=FIELD names the data set's "
                f"own: {', '.join(known)}"
            )
        if str(value) in found:
            raise UsageError(
                f"rows {found[str(value)] + 1} and {position + 1} of {name} have the same {field or column}, {value!r}"
            )
        found[str(value)] = position
    return found
