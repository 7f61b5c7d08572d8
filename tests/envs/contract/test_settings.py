"""Truth values are no numbers in settings; all else is read as pydantic reads it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from verigym.envs.contract.settings import Settings


class Example(Settings):
    count: int = 1
    share: float | None = None
    on: bool = False
    either: bool | int = 0
    anything: Any = None
    several: tuple[int, ...] = ()


@pytest.mark.parametrize("name", ["count", "share"])
@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_number(name: str, value: bool) -> None:
    with pytest.raises(ValidationError, match=f"{name} is {str(value).lower()}, a truth value; expected a number"):
        Example(**{name: value})


def test_other_values_are_read_as_ever() -> None:
    made = Example(count="3", share=0, on=True, either=True, anything=True, several=[1, 2])  # type: ignore[arg-type]
    assert (made.count, made.share, made.on, made.either, made.several) == (3, 0.0, True, True, (1, 2))
    assert Example.model_validate(made) is made and Example.model_validate_json(made.model_dump_json()) == made
    with pytest.raises(ValidationError, match="Extra inputs"):
        Example(cuont=3)  # type: ignore[call-arg]
