"""`DatasetConfig`: the schema of a data set's YAML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from verigym.datasets_cfg.adapters import ADAPTERS, Adapter
from verigym.datasets_cfg.fields import ColumnType, Extraction, near_placeholder, placeholders
from verigym.envs.contract.errors import did_you_mean
from verigym.envs.contract.settings import Settings

MAX_GENERATED = 10**12
"""Most tasks of a generated split."""


class Hub(Settings):
    """Where the data set is found on the Hugging Face hub."""

    path: str
    """Repository, `owner/name`."""
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the repository; with null, the newest is read. `verigym datasets pin` writes the newest commit here."""
    config: str | None = None
    """Configuration of a repository that has several."""
    splits: Mapping[str, str] = {}
    """Our split -> the hub's."""
    files: Mapping[str, tuple[str, ...]] = {}
    """Split, as called here -> JSON Lines files of the repository. Needed for a repository that has a loading script, since
    such scripts are never run."""

    @model_validator(mode="after")
    def _some_split(self) -> Self:
        if not self.splits and not self.files:
            raise ValueError("neither splits nor files names a split")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all splits on the hub."""
        return tuple(dict.fromkeys([*self.splits, *self.files]))


class RowRange(Settings):
    """Selects the rows whose column holds a number from `first` to `last`, both included."""

    column: str
    first: int
    last: int

    def fits(self, value: Any) -> bool:
        """Return True if a row with `value` in the column is selected."""
        return isinstance(value, int) and self.first <= value <= self.last

    def __str__(self) -> str:
        return f"{self.column} from {self.first} to {self.last}"


class RowValue(Settings):
    """Selects the rows whose column holds this text, whole number or truth value."""

    column: str
    equals: StrictStr | StrictBool | StrictInt

    def fits(self, value: Any) -> bool:
        """Return True if a row with `value` in the column is selected."""
        return type(value) is type(self.equals) and bool(value == self.equals)  # 1 and true are equal to Python, not to people

    def __str__(self) -> str:
        return f"{self.column} = {self.equals!r}"


class LocalFile(Settings):
    """A file in the data directory. In YAML a plain path is enough if all rows are used.

    A `*` in the name matches several files, which are read one after the other, ordered by name. The format is JSON Lines, one
    JSON list, CSV (.csv) or Parquet (.parquet). For Lean it may also be an archive (.tar.gz) of .lean files; each file is a row
    with the columns `name`, `folder` and `text`.
    """

    path: str
    rows: RowRange | None = None
    where: RowValue | None = None
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    """Hash of the file's uncompressed content; for several files, of their concatenated hex digests. A file with a different
    hash is another revision of the data and is refused."""
    layout: Literal["rows", "columns"] = "rows"
    """`rows`: the file has one row after the other; `columns`: the file is one JSON object, {column: {row: value}}."""

    def parts(self, data_dir: Path) -> list[Path]:
        """Return the paths in `data_dir` that exist, in order: at most one, or all that a `*` matches."""
        folder, _, name = self.path.rpartition("/")
        if "*" in name:
            return sorted(path for path in (data_dir / folder).glob(name) if path.is_file())
        path = data_dir / self.path
        return [path] if os.path.isfile(path) else []  # Path.is_file raises where a name is too long


class TextPart(Settings):
    """Selects a part of a column's text; surrounding white space is removed."""

    column: str
    after: str = ""
    """The part begins after the first occurrence of this text. A row without the text does not fit. Empty: from the start."""
    before: str = ""
    """The part ends before the last occurrence of this text. A row without the text does not fit. Empty: to the end."""


class ReferenceColumn(Settings):
    """The column that fills a field of the environment's reference."""

    column: str
    extract: Extraction | None = None
    """How the gold is extracted from the column's text; None to use the value unchanged."""
    optional: bool = False
    """Whether a row may lack the column or have null in it. The reference's field then has its default."""


class RowException(Settings):
    """A correction of one row's reference, and the reason for it."""

    task_id: str
    reason: str
    reference: Mapping[str, Any]
    """Merged over the row's reference."""


class DatasetConfig(Settings):
    """The description of a data set: where its rows are, and how a row becomes a Prompt."""

    name: str
    """Short name; stands in every prompt's metadata."""
    description: str
    """One sentence."""
    licence: str
    """Licence of the data."""
    url: str
    """Where to read about it."""
    hub: Hub | None = None
    """Read from here unless a data directory is given."""
    files: Mapping[str, LocalFile] = {}
    """Split -> file below the data directory, or {path, rows: {column, first, last}}, or {path, where: {column, equals}}."""
    evaluation_only: tuple[str, ...] = ()
    """Splits that are for evaluation and must not be trained on."""
    environment: str
    """Registry name of the environment that grades it."""
    options: Mapping[str, Any] = {}
    """Options of the environment."""
    columns: Mapping[str, ColumnType] = {}
    """Every column that is used, with its type. A row that lacks one is an error. A `shape` adds the columns that it needs."""
    shape: str | None = None
    """Name of an adapter (`adapters/`): code that reads a published row layout. It may make texts, which `prompt` may use like
    columns."""
    generated: Mapping[str, int] = {}
    """Split -> number of tasks, for tasks that the environment generates. There are no rows then, and no fields about rows."""
    texts: Mapping[str, TextPart] = {}
    """Name -> part of a column. The fields prompt, question and worked may use these names like those of columns."""
    prompt: str = ""
    r"""The question put to the model. `{column}` is replaced; all else, `\boxed{}` too, is plain text."""
    question: str | None = None
    """The prompt without instructions about the answer's form, for templates that have such instructions. `{column}` is
    replaced as in prompt."""
    worked: str = "{gold}"
    """The answer that is shown if a row serves as a few-shot example. `{column}` is replaced as in prompt, and `{gold}` by the
    gold as the environment writes it."""
    template: str | None = None
    """Default prompt template, such as r1-zero or maths:de. A template that the caller names takes precedence."""
    golds: Literal["all", "some", "none"] = "all"
    """Which rows have a gold (a known right answer). Validation grades the gold of these rows and only reads the others."""
    reference: Mapping[str, ReferenceColumn] = {}
    """Field of the environment's reference -> column."""
    fixed: Mapping[str, Any] = {}
    """Fields of the environment's reference that are the same for every row. Fields made from a row take precedence."""
    exceptions: tuple[RowException, ...] = ()
    """Rows of a shape that need something else."""
    metadata: tuple[str, ...] = ()
    """Columns copied to the prompt's metadata. A shape adds `task_id`."""
    contamination: str = ""
    """What is known about these rows being in models' training data, and which rows other data sets have too."""
    note: str = ""
    """What could not be checked, and what to mind."""
    sample_row: Mapping[str, Any] = {}
    """A row in the published layout, written by us; shown by `verigym datasets sample` and tested."""

    @field_validator("files", mode="before")
    @classmethod
    def _plain_paths(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {split: {"path": file} if isinstance(file, str) else file for split, file in value.items()}

    @field_validator("shape")
    @classmethod
    def _known_shape(cls, value: str | None) -> str | None:
        if value is not None and value not in ADAPTERS:
            raise ValueError(f"no shape is called {value!r}{did_you_mean(value, ADAPTERS)}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.generated:
            self._nothing_of_rows()
            return self
        if self.hub is None and not self.files:
            raise ValueError("neither hub nor files says where the rows are")
        if self.adapter and self.reference:
            raise ValueError("shape and reference both say what a row is compared with; keep one")
        if self.exceptions and not self.adapter:
            raise ValueError("exceptions go by the task_id that a shape finds; this data set has no shape")
        texts = (*(self.adapter.prompt_texts if self.adapter else ()), *self.texts)
        columns, templates = self.all_columns, self._templates(texts)
        used = {
            **{field: [name for name in placeholders(text or "") if name not in texts] for field, text in templates.items()},
            "texts": [part.column for part in self.texts.values()],
            "reference": [source.column for source in self.reference.values()],
            "metadata": list(self.metadata),
        }
        for place, names in used.items():
            for name in names:
                if name not in columns:
                    raise ValueError(f"{place} uses column {name!r}, which columns does not declare")
        return self

    def _templates(self, texts: Sequence[str]) -> dict[str, str | None]:
        """Return the texts that name columns, by their field, `{gold}` left out of `worked`; refuse those that are mistyped."""
        written = {"prompt": self.prompt, "question": self.question, "worked": self.worked}
        for field, text in written.items():
            known = (*self.all_columns, *texts, *(("gold",) if field == "worked" else ()))
            if near := near_placeholder(text or "", known):
                raise ValueError(f"{field} holds {near}")
        if not self.prompt:
            raise ValueError('prompt is missing: the text that asks, with a column in it, such as prompt: "{question}"')
        for field in ("prompt", "question"):
            if written[field] is not None and not placeholders(written[field] or ""):
                raise ValueError(f"{field} names no {{column}}: every row would ask the same")
        return {**written, "worked": self.worked.replace("{gold}", "")}

    @model_validator(mode="after")
    def _places_and_splits(self) -> Self:
        for split, file in self.files.items():
            place = PurePosixPath(file.path)
            if place.is_absolute() or ".." in place.parts or not place.name or "://" in file.path:
                raise ValueError(f"files.{split} is {file.path!r}; expected a file's path below the data directory")
        for split in self.evaluation_only:
            if split not in self.splits:
                raise ValueError(f"evaluation_only names {split!r}, which is no split{did_you_mean(split, self.splits)}")
        return self

    def _nothing_of_rows(self) -> None:
        """Refuse fields that describe rows: a generated set has none."""
        given = self.model_fields_set & {
            "hub",
            "files",
            "columns",
            "shape",
            "texts",
            "prompt",
            "question",
            "reference",
            "fixed",
        }
        if given:
            raise ValueError(f"{min(given)} describes rows, but generated says that the environment writes its own tasks")
        for split, count in self.generated.items():
            if not 1 <= count <= MAX_GENERATED:
                raise ValueError(f"generated.{split} is {count}; expected a number of tasks from 1 to {MAX_GENERATED:,}")

    @property
    def adapter(self) -> Adapter | None:
        """The adapter that `shape` names, or None."""
        return ADAPTERS[self.shape] if self.shape else None

    @property
    def all_columns(self) -> Mapping[str, ColumnType]:
        """The columns that every row must have, with their types: the adapter's and the description's own."""
        return {**(self.adapter.columns if self.adapter else {}), **self.columns}

    @cached_property
    def optional_columns(self) -> frozenset[str]:
        """The columns that a row may lack, because only optional fields of the reference use them."""
        used = {source.column for source in self.reference.values() if not source.optional}
        used |= {part.column for part in self.texts.values()} | set(self.metadata)
        for text in (self.prompt, self.question, self.worked):
            used |= set(placeholders(text or ""))
        return frozenset({source.column for source in self.reference.values() if source.optional} - used)

    @property
    def gold(self) -> str:
        """The columns that a row's gold comes from, for messages."""
        return self.adapter.gold if self.adapter else ", ".join(source.column for source in self.reference.values())

    @property
    def splits(self) -> list[str]:
        """The names of all splits, on the hub, in local files or generated."""
        return list(dict.fromkeys([*(self.hub.names if self.hub else ()), *self.files, *self.generated]))
