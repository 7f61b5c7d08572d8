"""YAML files with line numbers, so that a complaint about a field names the line it stands on."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from verigym.datasets_cfg.yamlfile import refuse_bombs, repeated_key
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
    overridden: Mapping[Loc, str] = field(default_factory=dict)
    """Of each field that the command line has set: the override, such as `steps=100`."""

    def place(self, loc: Sequence[int | str]) -> str:
        """Return where a field was set, or the nearest one around it: `file:line`, or the override of the command line."""
        around = tuple(loc)
        while around and around not in self.lines and around not in self.overridden:
            around = around[:-1]
        if around in self.overridden:
            return f"override {self.overridden[around]!r}"
        return f"{self.path}:{self.lines[around]}" if around else str(self.path)

    def overriding(self, overrides: Sequence[str]) -> Document:
        """Return the document with `key=value` overrides in its fields; places of what they set name the override.

        Raises:
            UsageError: an override is none, or leads nowhere.
        """
        fields = copy.deepcopy(self.fields)
        lines, overridden = dict(self.lines), dict(self.overridden)
        for override in overrides:
            loc = apply_override(fields, override)
            for known in (lines, overridden):
                for inner in [place for place in known if place[: len(loc)] == loc]:
                    del known[inner]
            overridden[loc] = override
        return replace(self, fields=fields, lines=lines, overridden=overridden)


def read_document(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Raises:
        UsageError: it cannot be read, is not YAML, has a key twice, or is no mapping; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        refuse_bombs(tree, str(path))
        twice = repeated_key(tree)
        fields = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except UsageError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise UsageError(f"{path}: expected `field: value` lines at the top level, got {type(fields).__name__}")
    if twice is not None:
        raise UsageError(f"{path}:{twice.start_mark.line + 1}: field {twice.value!r} stands twice; keep one")
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
        # What several fields get wrong together stands at no field; such messages begin with one of them.
        place = first["loc"] or (str(first["msg"]).removeprefix("Value error, ").partition(" ")[0].rstrip(":"),)
        raise UsageError(f"{document.place((*loc, *place))}: {explain(error, model.model_fields)}") from None


def apply_override(fields: dict[str, Any], override: str) -> Loc:
    """Set one `key=value` in `fields` itself, and return the place that it sets, as keys and list positions.

    Raises:
        UsageError: no `=`, a value that is not YAML, or a path that leads nowhere.
    """
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UsageError(f"override {override!r}: expected key=value, for example steps=100")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UsageError(f"override {override!r}: the value is not valid YAML") from None
    # YAML 1.1 reads 1e-5 as text, because it lacks the dot that its grammar wants.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            pass
    *parents, last = key.split(".")
    place: Any = fields
    loc: list[int | str] = []
    for part in parents:
        try:
            loc.append(int(part) if isinstance(place, list) else part)
            place = place[loc[-1]]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UsageError(f"override {override!r}: there is no {part!r} in the configuration file") from None
    try:
        loc.append(int(last) if isinstance(place, list) else last)
        place[loc[-1]] = value
    except (IndexError, ValueError, TypeError):
        raise UsageError(f"override {override!r}: {last!r} cannot be set there") from None
    return tuple(loc)


def place_of(fields: Mapping[str, Any], message: str, around: Loc = ()) -> Loc | None:
    """Return where the field or the source stands that a message begins with; None where it names none.

    Args:
        fields: of a run or a stage, as the file has them.
        message: such as `field 'sources.0.weight': ...`, `model: ...` or `source 'math': ...`.
        around: where the fields stand in the document.
    """
    if named := re.match(r"field '([a-z_0-9.]+)'", message):
        return (*around, *(int(part) if part.isdigit() else part for part in named[1].split(".")))
    if (named := re.match(r"([a-z_]+):", message)) and named[1] in fields:
        return (*around, named[1])
    sources = fields.get("sources")
    for number, source in enumerate(sources if isinstance(sources, list | tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        label = source.get("name") or source.get("dataset") or source.get("environment")
        if message.startswith(f"source {label!r}"):
            return (*around, "sources", number)
    return None


@contextmanager
def located(document: Document) -> Iterator[None]:
    """Put the place of the field before a message that begins with the field, or with the source.

    Raises:
        UsageError: the mistake.
    """
    try:
        yield
    except UsageError as error:
        place = place_of(document.fields, str(error))
        raise (error if place is None else UsageError(f"{document.place(place)}: {error}")) from None
