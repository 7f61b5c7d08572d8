"""The base class of what people set: options of environments, suites, data sets, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_validator


class Settings(BaseModel):
    """Base class of settings: immutable, and unknown names are refused, as are truth values where numbers are expected.

    YAML reads `yes`, `on` and `true` as truth values, and pydantic would take them for 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_truth_values(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        for name, value in data.items() if isinstance(data, Mapping) else ():
            if isinstance(value, bool) and name in _numbers_of(cls):
                raise ValueError(f"{name} is {str(value).lower()}, a truth value; expected a number")
        return handler(data)


@cache
def _numbers_of(model: type[BaseModel]) -> frozenset[str]:
    """Return the names of the fields that hold numbers and no truth values."""
    types = {name: set(_types_in(field.annotation)) for name, field in model.model_fields.items()}
    return frozenset(name for name, found in types.items() if found & {int, float} and not found & {bool, Any, object})


def _types_in(annotation: Any) -> Sequence[Any]:
    """Return the parts of a union such as `int | None`, or the one type that it is; what collections hold is not looked at."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
