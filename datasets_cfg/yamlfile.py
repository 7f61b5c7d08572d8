"""Reader of all YAML: data sets, templates, suites, runs, pipelines. Errors name file, line and field."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from verigym.envs.contract.errors import UsageError, explain, near_file

M = TypeVar("M", bound=BaseModel)
Loc = tuple[int | str, ...]
"""Path of a field: the keys and list positions that lead to the field from the top."""

MAX_CHARACTERS = 1 << 17
"""Maximum length of a YAML file. A longer file is probably data, and to read it as YAML would take minutes."""
MAX_VALUES = 100_000
"""Maximum number of keys and values in a YAML file. A YAML alias counts as all the values that it repeats."""


@dataclass(frozen=True)
class Document:
    """The fields of a YAML document, with the file and line of each."""

    name: str
    """Of the file, or of what else the fields come from."""
    fields: Mapping[str, Any]
    places: Mapping[Loc, str]
    """For each field that was set: `file:line`, or the command-line override that set it."""

    def place(self, loc: Sequence[int | str]) -> str:
        """Return the place where the field at the path `loc` was set, as file and line.

        If the field was not set, return the place of the nearest enclosing field. Parts of `loc` that are no fields are
        skipped: the paths in pydantic's errors also contain the names of types that it tried.
        """
        around: Loc = ()
        for part in loc:
            if (*around, part) in self.places:
                around = (*around, part)
        return self.places.get(around, self.name)


def read_document(path: str | os.PathLike[str]) -> Document:
    """Return the fields of a user's YAML file.

    Raises:
        UsageError: the file cannot be read (see `text_of`), or is not a YAML mapping (see `parse`).
    """
    return parse(text_of(path), str(path))


def text_of(path: str | os.PathLike[str]) -> str:
    """Return the text of a user's YAML file.

    Raises:
        UsageError: there is no such file, it is too long for a description, or it is not UTF-8.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
        raise UsageError(f"cannot read {path}: it is no regular file")
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: not UTF-8: {error.reason}; save the file as UTF-8") from None
    except FileNotFoundError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}{near_file(path)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"cannot read {path}: over {MAX_CHARACTERS:,} characters, too long for a description; is it the data?")
    return text


def parse(text: str, name: str, example: str = "`name: value`") -> Document:
    """Return the fields in `text`, with the line of each.

    Args:
        text: the YAML text.
        name: name of the file, for messages.
        example: the fields to suggest in a message if `text` is not a mapping.

    Raises:
        UsageError: `text` is not YAML or not a mapping, or a key occurs twice; the message names file and line.
    """
    data, tree = _value(text, name, lambda line: f"{name}:{line}")
    if not isinstance(data, dict):
        got = "an empty file" if data is None else f"a {type(data).__name__}"
        raise UsageError(f"{name}: expected fields such as {example}; got {got}")
    places = {loc: f"{name}:{line}" for loc, line in _lines(tree, ())}
    for key in data:
        if not isinstance(key, str):
            raise UsageError(f"{places.get((str(key),), name)}: field {key!r}: the name of a field is text; put it in quotes")
    return Document(name, data, places)


def value_of(text: str, name: str) -> Any:
    """Return the value of a one-line YAML text: a mapping, a list or a single value; `name` is used in messages.

    Raises:
        UsageError: `text` is not YAML, or a key occurs twice.
    """
    return _value(text, name, lambda _: name)[0]


def read(text: str, name: str, model: type[M], example: str) -> M:
    """Parse the YAML in `text` and return it validated as `model`; for the other arguments see `parse`.

    Raises:
        UsageError: `text` is not YAML, or does not fit `model`; the message names file, line and field.
    """
    document = parse(text, name, example)
    return checked(model, document.fields, document)


def checked(model: type[M], fields: Mapping[str, Any], document: Document, loc: Loc = (), what: str = "") -> M:
    """Return `fields`, a part of a document, validated as `model`.

    Args:
        model: the model that the part must fit.
        fields: the part.
        document: the whole document, which gives the lines for messages.
        loc: path of the part in the document.
        what: description of the part for messages, such as `stage 'sft'`; empty if it is the whole document.

    Raises:
        UsageError: the part does not fit; one line names the file, the line, the field, what was expected and what was given.
    """
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        place, said = document.place((*loc, *_place(error))), explain(error, model.model_fields)
        raise UsageError(": ".join(filter(None, (place, what, said)))) from None


def _place(error: ValidationError) -> Sequence[int | str]:
    """Return the path to the problem that `explain` reports; where fields clash, to the one its message begins with."""
    problems = error.errors(include_url=False, include_context=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    if first["loc"]:
        return first["loc"]
    words = str(first["msg"]).removeprefix("Value error, ").split()
    return words[0].rstrip(":").split(".") if words else ()


def _value(text: str, name: str, at: Callable[[int], str]) -> tuple[Any, Any]:
    """Return the value of a text, and its nodes; `at` describes the place of a line."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_bombs(tree, at)
        _refuse_careless_keys(tree, at)
        return None if tree is None else yaml.SafeLoader("").construct_document(tree), tree
    except yaml.MarkedYAMLError as error:
        place = at(error.problem_mark.line + 1) if error.problem_mark else name
        raise UsageError(f"{place}: not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise UsageError(f"{name}: not YAML: brackets or fields stand too deep in each other") from None
    except UsageError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{name}: not YAML: {' '.join(str(error).split())[:200]}") from None


def _refuse_bombs(tree: Any, at: Callable[[int], str]) -> None:
    """Refuse a document whose aliases stand for more than can be walked through, or for what they stand in themselves."""
    sizes: dict[int, int | None] = {}

    def size(node: Any) -> int:
        key = id(node)
        if key in sizes:
            known = sizes[key]
            if known is None:
                raise UsageError(f"{at(node.start_mark.line + 1)}: an alias stands inside what it stands for; leave it out")
            return known
        sizes[key] = None
        parts = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else ()
        total = 1 + sum(sum(map(size, part)) if isinstance(part, tuple) else size(part) for part in parts)
        if total > MAX_VALUES:
            place = at(node.start_mark.line + 1)
            raise UsageError(f"{place}: over {MAX_VALUES:,} values, too many for a description; is it the data?")
        sizes[key] = total
        return total

    if tree is not None:
        size(tree)


def _refuse_careless_keys(node: Any, at: Callable[[int], str]) -> None:
    """Refuse a key that stands twice in one mapping, or without a value; YAML would keep the last, or null, in silence."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_careless_keys(item, at)
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key.value, str):
                if key.value in seen:
                    raise UsageError(f"{at(key.start_mark.line + 1)}: field {key.value!r} stands twice; keep one")
                seen.add(key.value)
            is_empty = isinstance(value, yaml.ScalarNode) and value.value == "" and value.style is None
            if is_empty and ":" not in key.value:  # with one in it, the key lacks a space, and its name is refused
                said = f"field {key.value!r} has no value; give one, write null or {{}} if that is meant, or remove the field"
                raise UsageError(f"{at(key.start_mark.line + 1)}: {said}")
            _refuse_careless_keys(value, at)


def _lines(node: Any, loc: Loc) -> Iterator[tuple[Loc, int]]:
    """Give the line of each field, from 1."""
    inner: list[tuple[int | str, Any, Any]] = []
    if isinstance(node, yaml.MappingNode):
        inner = [(key.value, key, value) for key, value in node.value if isinstance(key.value, str)]
    elif isinstance(node, yaml.SequenceNode):
        inner = [(number, value, value) for number, value in enumerate(node.value)]
    for part, key, value in inner:
        yield (*loc, part), key.start_mark.line + 1
        yield from _lines(value, (*loc, part))


def node_at(text: str, path: Sequence[str]) -> Any:
    """Return the YAML node of the field at `path`, with its position in the text; None if there is no such field."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == part), None)
    return node
