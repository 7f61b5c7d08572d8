"""YAML descriptions read with their lines, so that a mistake is named by file, line and field."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from verigym.envs.errors import UsageError, explain

M = TypeVar("M", bound=BaseModel)

Path = Sequence[str | int]

MAX_CHARACTERS = 1 << 17
"""Of a description; whatever is longer is data, and reading it as YAML would take minutes."""
MAX_VALUES = 100_000
"""Keys and values of a description, each alias counted as all that it stands for."""


def text_of(path: str | os.PathLike[str]) -> str:
    """Return the text of a YAML file of the user's.

    Raises:
        UsageError: there is no such file, it is longer than a description is, or it is not UTF-8.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
        raise UsageError(f"cannot read {path}: it is no regular file")
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: not UTF-8: {error.reason}; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"cannot read {path}: over {MAX_CHARACTERS:,} characters, too long for a description; is it the data?")
    return text


def read(text: str, name: str, model: type[M], example: str) -> M:
    """Return the description that a text holds.

    Args:
        text: YAML.
        name: of the file, for messages.
        model: what it must fit.
        example: fields to name where the text holds no mapping.

    Raises:
        UsageError: it is not YAML, a key stands twice, or it does not fit; the message names file, line and field.
    """
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        refuse_bombs(tree, name)
        twice = repeated_key(tree)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{name}{line}: not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise UsageError(f"{name}: not YAML: brackets or fields stand too deep in each other") from None
    except UsageError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        got = "an empty file" if data is None else f"a {type(data).__name__}"
        raise UsageError(f"{name}: expected fields such as {example}; got {got}")
    if twice is not None:
        raise UsageError(f"{name}, line {twice.start_mark.line + 1}: field {twice.value!r} stands twice; keep one")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        line = f", line {_line(tree, _place(error))}"
        raise UsageError(f"{name}{line}: {explain(error, model.model_fields)}") from None


def refuse_bombs(tree: Any, name: str) -> None:
    """Refuse a document whose aliases stand for more than can be walked through, or for what they stand in themselves.

    Args:
        tree: its nodes, as `yaml.compose` gives them.
        name: of the file, for the message.

    Raises:
        UsageError: it does.
    """
    sizes: dict[int, int | None] = {}

    def size(node: Any) -> int:
        key = id(node)
        if key in sizes:
            known = sizes[key]
            if known is None:
                raise UsageError(
                    f"{name}, line {node.start_mark.line + 1}: an alias stands inside what it stands for; leave it out"
                )
            return known
        sizes[key] = None
        parts = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else ()
        total = 1 + sum(sum(map(size, part)) if isinstance(part, tuple) else size(part) for part in parts)
        if total > MAX_VALUES:
            line = node.start_mark.line + 1
            raise UsageError(f"{name}, line {line}: over {MAX_VALUES:,} values, too many for a description; is it the data?")
        sizes[key] = total
        return total

    if tree is not None:
        size(tree)


def line_of(text: str, path: Path) -> int:
    """Return the line, from 1, of the field at a path, or of the innermost one above it that is there."""
    return _line(yaml.compose(text, Loader=yaml.SafeLoader), path)


def node_at(text: str, path: Path) -> Any:
    """Return the YAML node of the field at a path, with its marks; None where there is none."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == part), None)
    return node


def _place(error: ValidationError) -> Path:
    """Return the path of the problem that `explain` tells of; where several fields clash, the one its message begins with."""
    problems = error.errors(include_url=False, include_context=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    if first["loc"]:
        return first["loc"]
    words = str(first["msg"]).removeprefix("Value error, ").split()
    return words[0].rstrip(":").split(".") if words else ()


def _line(node: Any, path: Path) -> int:
    line = node.start_mark.line
    for part in path:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        if found is None:  # the name of an alternative that was tried, or a field that is missing
            continue
        line, node = found[0].start_mark.line, found[1]
    return int(line) + 1


def repeated_key(node: Any) -> Any:
    """Return a key that stands twice in one mapping, at any depth; YAML itself would keep the last in silence."""
    if isinstance(node, yaml.SequenceNode):
        return next((twice for item in node.value if (twice := repeated_key(item)) is not None), None)
    if not isinstance(node, yaml.MappingNode):
        return None
    seen = set()
    for key, value in node.value:
        if isinstance(key.value, str):
            if key.value in seen:
                return key
            seen.add(key.value)
        twice = repeated_key(value)
        if twice is not None:
            return twice
    return None
