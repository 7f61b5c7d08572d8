"""JSON Schema for the `format` environment: schemas that can be checked in linear time, and answers that follow one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import canonical_json
from verigym.envs.extras import install
from verigym.envs.linear import check_pattern, search

# The library matches these with backtracking expressions, or fetches what they name.
_REFUSED = {
    "patternProperties": "write the properties out",
    "$dynamicRef": "use $ref",
    "$recursiveRef": "use $ref",
    "format": "use pattern",
}


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check that `schema` is a valid JSON schema, and that answers can be checked against it in linear time.

    Raises:
        ValueError: `schema` is refused; the message says why and what to do.
    """
    for name, value in _keywords(schema):
        if name in _REFUSED:
            raise ValueError(f"json_schema uses {name!r}, which is not checked; {_REFUSED[name]}")
        if name == "$ref" and not str(value).startswith("#"):
            raise ValueError(f"json_schema refers to {value!r}; references must stay inside the schema, as in '#/$defs/item'")
        if name == "pattern":
            check_pattern(str(value))
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
    except ImportError:  # found again, and said, when it is needed
        return
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        raise ValueError(f"json_schema is no JSON Schema: {error.message:.200}") from None


def _keywords(value: Any, named: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the schema's keywords; the names of properties and definitions are none, nor is what const and enum hold."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not named:
                yield name, inner
            if named or name not in ("const", "enum", "default", "examples"):
                yield from _keywords(inner, not named and name in ("properties", "$defs", "definitions", "dependentSchemas"))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _keywords(inner)


def follows_schema(value: Any, schema: Mapping[str, Any]) -> str:
    """Return a text that says where `value` violates `schema`, or an empty string if `value` follows the schema.

    Raises:
        EnvironmentFailure: jsonschema is not installed (kind `unavailable`).
    """
    try:
        error = next(_validator(canonical_json(schema)).iter_errors(value), None)
    except RecursionError:
        return "is nested too deeply"
    if error is None:
        return ""
    place = "/".join(map(str, error.absolute_path))
    return f"{place or 'the value'} breaks {error.validator!r}"


@functools.lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    try:
        from jsonschema import Draft202012Validator, ValidationError, validators
    except ImportError:
        raise EnvironmentFailure("unavailable", f"JSON schemas need the package jsonschema; {install('jsonschema')}") from None
    import json

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[Any]:
        if isinstance(value, str) and not search(wanted, value):
            yield ValidationError("does not fit the pattern")

    def unique(_: Any, wanted: bool, value: Any, __: Any) -> Iterator[Any]:
        # The library compares every pair of items that cannot be sorted.
        if wanted and isinstance(value, list) and len({_spelling(item) for item in value}) < len(value):
            yield ValidationError("holds an item twice")

    def multiple(_: Any, wanted: float, value: Any, __: Any) -> Iterator[Any]:
        # The library divides floats: 0.07 is no multiple of 0.01 then.
        if isinstance(value, int | float) and not isinstance(value, bool) and Fraction(repr(value)) % Fraction(repr(wanted)):
            yield ValidationError("is no multiple")

    rules = {"pattern": pattern, "uniqueItems": unique, "multipleOf": multiple}
    linear = validators.extend(Draft202012Validator, rules)
    return linear(json.loads(schema))


def _spelling(value: Any) -> str:
    """Return one text for one JSON value: 1.0 is 1."""
    return canonical_json(_whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {name: _whole(item) for name, item in value.items()} if isinstance(value, dict) else value
