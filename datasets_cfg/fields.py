"""Fields of a row: find a field by its path, check its type, extract the gold from it, put columns into a template."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, get_args

from verigym.envs import UsageError
from verigym.envs.contract.errors import did_you_mean
from verigym.envs.contract.schema import canonical_json
from verigym.envs.extraction.methods import METHODS

Extraction = Literal["hash", "boxed", "label", "final", "last"]
EXTRACTIONS: tuple[Extraction, ...] = get_args(Extraction)

ColumnType = Literal["string", "integer", "number", "boolean", "list", "object"]
_PYTHON_TYPES: dict[ColumnType, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
}

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NEAR = re.compile(r"\{ *([A-Za-z_][A-Za-z0-9_]*)(?: *[.|\[][^{}]*| *)\}")
"""A name in braces as Jinja and str.format have it: with spaces, an attribute, a filter or an index."""
_DOUBLED = re.compile(r"(\\[A-Za-z]+\*?|[\]}^_])?(\{\{([A-Za-z_][A-Za-z0-9_]*)\}\})")
r"""A name in two pairs of braces, as Jinja has it; behind a command, as in `\boxed{{answer}}`, the outer pair is LaTeX's."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class FieldProblem(ValueError):
    """Raised when a field of a row does not fit: `field` is its column or path, and the message says what is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def find(value: Any, path: str) -> Any:
    """Return the value at `path` in `value`, or MISSING if there is none. A key equal to the whole path takes precedence.

    `a.b` is key `b` of the object at `a`; `a.0` is the first element of the list at `a`.
    """
    if isinstance(value, list):
        head, _, rest = path.partition(".")
        if not (head.isascii() and head.isdigit() and len(head) < 10) or int(head) >= len(value):
            return MISSING
        return find(value[int(head)], rest) if rest else value[int(head)]
    if not isinstance(value, Mapping):
        return MISSING
    if path in value:
        return value[path]
    for dot in (index for index, character in enumerate(path) if character == "."):
        if path[:dot] in value:
            found = find(value[path[:dot]], path[dot + 1 :])
            if found is not MISSING:
                return found
    return MISSING


def describe(value: Any) -> str:
    """Return the words "is missing", "is null" or "is TYPE" that describe `value`."""
    if value is MISSING:
        return "is missing"
    return "is null" if value is None else f"is {type(value).__name__}"


def check_type(row: Mapping[str, Any], column: str, expected: ColumnType) -> None:
    """Raise FieldProblem unless `row` has a value of type `expected` in `column`."""
    value = find(row, column)
    # bool is an int to Python, not to people
    right = isinstance(value, _PYTHON_TYPES[expected]) and (expected == "boolean" or not isinstance(value, bool))
    if not right:
        # a reader of tables shows a key that one row lacks as null
        what = "is missing" if value is None else describe(value)
        why = ""
        if expected == "integer" and isinstance(value, float):
            why = "; a column is read as float where one of its rows has a fraction, NaN or a very large number"
        raise FieldProblem(column, f"{what}; expected {expected}{why}")


def extract_gold(value: Any, how: Extraction, field: str) -> Any:
    """Return the gold answer that the method `how` extracts from the text `value`; for a list of texts, the list of golds.

    Raises:
        FieldProblem: `value` is not text, or the method `how` finds no gold in it.
    """
    if isinstance(value, list):
        return [extract_gold(one, how, field) for one in value]
    if not isinstance(value, str):
        raise FieldProblem(field, f"{describe(value)}; expected text to take the gold from by {how!r}")
    gold = METHODS[how](value)
    if gold is None:
        end = value[-60:]
        raise FieldProblem(field, f"no gold is found by {how!r}; the text ends in {end!r}")
    return gold


def placeholders(template: str) -> list[str]:
    r"""Return the names of the columns in `template`. Only `{name}` is a placeholder; `\boxed{}` is plain text."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))


def near_placeholder(template: str, known: Collection[str]) -> str | None:
    """Return a message if `template` names a column of `known` in another syntax, such as `{{name}}`; None if it does not."""
    for match in _NEAR.finditer(template):
        if match[1] in known and match[0] != f"{{{match[1]}}}":
            return f"{match[0]!r}, which nothing fills in; a whole column is {{{match[1]}}}"
    for match in _DOUBLED.finditer(template):
        if match[1] is None and match[3] in known:
            return f"{match[2]!r}, whose outer braces would stand in every text; a whole column is {{{match[3]}}}"
    return None


def fill(template: str, row: Mapping[str, Any]) -> str:
    """Return `template` with each `{column}` replaced by its value in `row`. Braces in the values are not replaced again.

    Raises:
        FieldProblem: `row` has no value for a column.
    """

    def text(match: re.Match[str]) -> str:
        value = find(row, match[1])
        if value is MISSING or value is None:
            raise FieldProblem(match[1], describe(value))
        return value if isinstance(value, str) else canonical_json(value)

    return _PLACEHOLDER.sub(text, template)


def check_extraction(how: str) -> Extraction:
    """Return `how`, a user's name for an extraction method, as an Extraction.

    Raises:
        UsageError: there is no such method.
    """
    for known in EXTRACTIONS:
        if how == known:
            return known
    raise UsageError(f"{how!r} is no way to extract a gold{did_you_mean(how, EXTRACTIONS)}")
