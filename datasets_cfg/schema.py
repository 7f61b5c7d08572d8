"""What a data set's YAML may say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from verigym.datasets_cfg.fields import ColumnType, Extraction, placeholders


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Hub(_Frozen):
    """Where the data set is on the Hugging Face hub."""

    path: str
    """Repository, `owner/name`."""
    config: str | None = None
    """Configuration of a repository that has several."""
    splits: Mapping[str, str] = Field(min_length=1)
    """Our split -> the hub's."""


class ReferenceColumn(_Frozen):
    """Which column fills a field of the environment's reference."""

    column: str
    extract: Extraction | None = None
    """How the gold is found in the column's text; as it stands when left out."""


class DatasetConfig(_Frozen):
    """A data set: where its rows are and how one becomes a Prompt."""

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
    files: Mapping[str, str] = {}
    """Split -> JSON Lines file (.jsonl or .jsonl.gz), relative to the data directory."""
    environment: str
    """Registry name of the environment that grades it."""
    options: Mapping[str, Any] = {}
    """Options of the environment."""
    columns: Mapping[str, ColumnType] = Field(min_length=1)
    """Every column that is used, with its type. A row that lacks one does not fit."""
    prompt: str
    r"""The question put to the model. `{column}` is replaced; all else, `\boxed{}` too, is plain text."""
    reference: Mapping[str, ReferenceColumn] = {}
    """Field of the environment's reference -> column."""
    metadata: tuple[str, ...] = ()
    """Columns copied to the prompt's metadata."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.hub is None and not self.files:
            raise ValueError("neither hub nor files says where the rows are")
        used = {
            "prompt": placeholders(self.prompt),
            "reference": [source.column for source in self.reference.values()],
            "metadata": list(self.metadata),
        }
        for place, names in used.items():
            for name in names:
                if name not in self.columns:
                    raise ValueError(f"{place} uses column {name!r}, which columns does not declare")
        for split, file in self.files.items():
            if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                raise ValueError(f"files.{split} is {file!r}; it must lie below the data directory")
        if not used["prompt"]:
            raise ValueError("prompt names no {column}: every row would ask the same")
        return self

    @property
    def splits(self) -> list[str]:
        """Every split that the hub or a local file has."""
        return list(dict.fromkeys([*(self.hub.splits if self.hub else ()), *self.files]))
