"""Types for the arguments of instructions, and the pydantic model that validates arguments, built from a check's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from verigym.envs.contract.errors import did_you_mean
from verigym.envs.language.identify import LANGUAGES


def _whole(value: object) -> int:
    # data sets whose rows share one table hold their whole numbers as 4.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise ValueError("expected a whole number")
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a number")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected text that is not blank")
    return value


def _letter(value: str) -> str:
    if len(value) != 1:
        raise ValueError("expected one character")
    return value


def _language(value: str) -> str:
    if value not in LANGUAGES:
        raise ValueError(f"no language that can be told has the ISO 639-1 code {value!r}{did_you_mean(value, LANGUAGES)}")
    return value


Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1_000_000)]
"""A whole number from 0; 4.0 is one, "4" is not."""
Position = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1_000_000)]
"""A whole number from 1."""
Percentage = Annotated[float, BeforeValidator(_number), Field(ge=0, le=100)]
Text = Annotated[str, BeforeValidator(_text)]
"""Text that is not blank."""
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Letter = Annotated[str, BeforeValidator(_text), AfterValidator(_letter)]
Language = Annotated[str, BeforeValidator(_text), AfterValidator(_language)]
"""An ISO 639-1 code that the identifier knows."""
Relation = Literal["at least", "less than"]


class Arguments(BaseModel):
    """Base of the models that `model_of` makes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def model_of(name: str, check: Callable[..., bool]) -> type[Arguments]:
    """Return a pydantic model of the arguments of `check`: its keyword-only parameters, all required.

    Raises:
        TypeError: the signature of `check` is not `(text, *, argument: Type, ...)`.
    """
    parameters = list(inspect.signature(check).parameters.values())
    if not parameters or parameters[0].name != "text" or any(p.kind is not p.KEYWORD_ONLY for p in parameters[1:]):
        raise TypeError(f"the check of {name!r} must be a function (text, *, argument: Type, ...), got {parameters}")
    hints = get_type_hints(check, include_extras=True)
    fields: dict[str, Any] = {p.name: (hints[p.name], ...) for p in parameters[1:]}
    return create_model(f"Arguments of {name}", __base__=Arguments, **fields)
