"""YAML files with line numbers, so that a complaint about a field names the line it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from verigym.datasets_cfg.yamlfile import refuse_bombs
from verigym.envs.errors import UsageError, explain

M = TypeVar("M", bound=BaseModel)
Loc = tuple[int | str, ...]


@dataclass(frozen=True)
class Document:
    """What a YAML file holds, and where."""

    path: Path
    fields: dict[str, Any]
    lines: Mapping[Loc, int]
    """Of each field, by its keys and list positions from the top: the line, counted from 1."""

    def place(self, loc: Sequence[int | str]) -> str:
        """Return `file:line` of a field, or of the nearest field around it."""
        found = tuple(loc)
        while found and found not in self.lines:
            found = found[:-1]
        return f"{self.path}:{self.lines[found]}" if found else str(self.path)


def read_document(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Raises:
        UsageError: it cannot be read, is not YAML, or is no mapping; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    try:
        fields = yaml.safe_load(text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        refuse_bombs(tree, str(path))
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except UsageError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise UsageError(f"{path}: expected `field: value` lines at the top level, got {type(fields).__name__}")
    lines: dict[Loc, int] = {}
    _note(tree, (), lines)
    return Document(path, fields, lines)


def _note(node: Any, loc: Loc, lines: dict[Loc, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            lines[(*loc, key.value)] = key.start_mark.line + 1
            _note(value, (*loc, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[(*loc, number)] = value.start_mark.line + 1
            _note(value, (*loc, number), lines)


def checked(model: type[M], fields: Mapping[str, Any], document: Document, loc: Loc = ()) -> M:
    """Validate a part of a document.

    Args:
        model: what the part must be.
        fields: the part.
        document: where it stands, for messages.
        loc: where in the document.

    Raises:
        UsageError: one line that names the file, the line, the field, what was expected and what was given.
    """
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
        raise UsageError(f"{document.place((*loc, *first['loc']))}: {explain(error, model.model_fields)}") from None
