"""How long torch's threads spin: bounded before torch is imported, unless the user has said otherwise."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import pytest

from verigym.envs import openmp
from verigym.envs.openmp import SPINS, WAITING, bound_spinning, unbounded


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WAITING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(openmp, "_too_late", False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def test_it_is_bounded_where_nobody_has_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == SPINS
    assert unbounded() is None


@pytest.mark.parametrize("name", WAITING)
def test_the_user_s_own_variable_wins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    bound_spinning()
    assert [os.environ.get(other) for other in WAITING] == ["1" if other == name else None for other in WAITING]


def test_where_torch_came_first_the_remedy_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    bound_spinning()
    bound_spinning()  # as a second import does
    told = unbounded()
    assert told is not None and f"GOMP_SPINCOUNT={SPINS}" in told
    assert unbounded() is None
