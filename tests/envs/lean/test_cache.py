"""Verdicts are kept by all that they depend on: ACCEPT and REJECT, LIMIT with its limits, and nothing without a score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verigym.envs.contract.schema import Score
from verigym.envs.lean.cache import VerdictCache, verdict_keys
from verigym.envs.lean.task import LeanLimits, LeanReference

BASE: dict[str, Any] = {"name": "target", "statement": "theorem target : 1 + 1 = 2"}


def keys(*, toolchain: str = "t", judge: str = "j", policy: list[str] | None = None, proof: str = "rfl", **fields: Any) -> Any:
    return verdict_keys(toolchain, judge, policy or ["process", ""], LeanReference(**{**BASE, **fields}), proof)


@pytest.mark.parametrize(
    "change",
    [
        {"toolchain": "other"},
        {"judge": "other"},
        {"policy": ["repl", ""]},
        {"proof": "by rfl"},
        {"header": "open Nat"},
        {"statement": "theorem target : 1 + 1 = 3"},
        {"name": "other", "statement": "theorem other : 1 + 1 = 2"},
        {"allowed_axioms": ("propext",)},
        {"mode": "file"},
    ],
    ids=str,
)
def test_what_a_verdict_depends_on_is_in_its_key(change: dict[str, Any]) -> None:
    assert keys(**change)[0] != keys()[0] and keys(**change)[1] != keys()[1]


def test_limits_and_what_decides_nothing_are_not() -> None:
    more = {"limits": LeanLimits(wall_s=1), "solution": "rfl", "allowed_axioms": ("Quot.sound", "Classical.choice", "propext")}
    assert keys(**more)[0] == keys()[0]
    assert keys(limits=LeanLimits(wall_s=1))[1] != keys()[1]


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_kept(tmp_path: Path, on_disk: bool) -> None:
    path = str(tmp_path / "verdicts.sqlite") if on_disk else ""
    cache = VerdictCache(path)
    right, wrong = Score.correct(reason="accepted"), Score.incorrect(reason="axiom:sorryAx")
    cache.put(keys(proof="a"), right)
    cache.put(keys(proof="b"), wrong)
    cache.put(keys(proof="c", limits=LeanLimits(wall_s=1)), Score.limit(reason="time"))
    cache.put(keys(proof="d"), Score.failed("unavailable", "no Lean"))
    if on_disk:
        cache = VerdictCache(path)
    assert cache.get(keys(proof="a")) == right and cache.get(keys(proof="b")) == wrong
    assert cache.get(keys(proof="a", limits=LeanLimits(wall_s=1))) == right
    assert cache.get(keys(proof="c", limits=LeanLimits(wall_s=1))) is not None
    assert cache.get(keys(proof="c")) is None
    assert cache.get(keys(proof="d")) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigym.envs.lean.cache._KEPT", 3)
    cache = VerdictCache()
    for number in range(5):
        cache.put((str(number), ""), Score.correct())
    assert [cache.get((str(number), "x")) is not None for number in range(5)] == [False, False, True, True, True]
