"""The curriculum: pools by pass rate, shares by hash, and a state that goes on where it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verigym.trainer.tasks import curriculum as pools
from verigym.trainer.tasks.curriculum import Curriculum


def make(**more: Any) -> Curriculum:
    shares = {"hard_share": 0.3, "easy_share": 0.1, "hard_below": 0.25, "easy_above": 0.75}
    return Curriculum(["a", "b"], 7, **{**shares, **more})


def with_tasks(rates: dict[str, float], **more: Any) -> Curriculum:
    curriculum = make(**more)
    for number, (key, rate) in enumerate(rates.items()):
        curriculum.drew("a", key, number)
        curriculum.observe("a", key, rate)
    return curriculum


def next_turn(curriculum: Curriculum, label: str = "a") -> int | None:
    """The first turn of a step."""
    curriculum.next_step()
    return curriculum.revisit(label)


def pool_of(curriculum: Curriculum, key: str) -> str:
    return next(name for name, pool in curriculum.pools["a"].items() if key in pool)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([0.0], "hard"), ([0.25], "hard"), ([0.26], "normal"), ([0.75], "easy"), ([0.74], "normal"), ([1.0], "easy"),
        ([0.0, 1.0], "normal"), ([0.0, 1.0, 1.0], "easy"), ([1.0, 0.0, 0.0], "hard"), ([0.5, 0.0], "hard"),
    ],
)  # fmt: skip
def test_a_task_moves_by_the_mean_of_what_was_and_the_newest(rates: list[float], expected: str) -> None:
    curriculum = make()
    curriculum.drew("a", "task", 12)
    assert pool_of(curriculum, "task") == "normal"
    for rate in rates:
        curriculum.observe("a", "task", rate)
    assert pool_of(curriculum, "task") == expected
    assert curriculum.is_normal("a", "task") is (expected == "normal")
    assert curriculum.is_normal("b", "task"), "sources are apart"


def test_shares_are_followed_and_tasks_take_turns() -> None:
    curriculum = with_tasks({"h0": 0.0, "h1": 0.1, "h2": 0.2, "e0": 1.0, "n0": 0.5})
    turns = [next_turn(curriculum) for _ in range(2000)]
    assert turns.count(None) == pytest.approx(1200, abs=80)
    assert turns.count(3) == pytest.approx(200, abs=40)
    hard = [turn for turn in turns if turn in (0, 1, 2)]
    assert hard == [0, 1, 2] * (len(hard) // 3) + [0, 1, 2][: len(hard) % 3]
    assert 4 not in turns


def test_an_empty_pool_gives_the_next_task_in_order() -> None:
    normal, nothing = with_tasks({"n": 0.5}), make(hard_share=1.0, easy_share=0.0)
    assert {next_turn(normal) for _ in range(50)} == {next_turn(nothing, "b") for _ in range(50)} == {None}


def test_a_step_asks_no_task_twice() -> None:
    curriculum = with_tasks({"h0": 0.0, "h1": 0.1, "n0": 0.5, "h2": 0.2}, hard_share=1.0, easy_share=0.0)
    assert curriculum.revisit("a") is None, "this step drew them all"
    curriculum.next_step()
    assert [curriculum.revisit("a") for _ in range(5)] == [0, 1, 3, None, None]
    curriculum.next_step()
    curriculum.observe("a", "h0", 0.1)  # asked or not, the one seen last waits longest
    assert [curriculum.revisit("a") for _ in range(4)] == [1, 3, 0, None]


def test_an_endless_source_forgets_its_normal_tasks() -> None:
    rates = {"h0": 0.0, "e0": 1.0, **{f"n{number}": 0.5 for number in range(50)}}
    endless, whole = with_tasks(rates, endless=["a"]), with_tasks(rates)
    for curriculum in (endless, whole):
        curriculum.drew("b", "other", 0)
        curriculum.next_step()
    assert endless.pools["a"] == {"easy": {"e0": (1, 1.0)}, "normal": {}, "hard": {"h0": (0, 0.0)}}
    assert len(whole.pools["a"]["normal"]) == 50, "the next epoch of a data set asks them again"
    assert endless.pools["b"]["normal"] == {"other": (0, None)}
    assert [next_turn(endless) for _ in range(99)] == [next_turn(whole) for _ in range(99)]


def test_what_a_task_was_drawn_as_first_is_its_number() -> None:
    curriculum = make(hard_share=1.0, easy_share=0.0)
    curriculum.drew("a", "task", 3)
    curriculum.drew("a", "task", 99)
    curriculum.observe("a", "task", 0.0)
    curriculum.drew("a", "task", 100)
    assert next_turn(curriculum) == 3
    assert pool_of(curriculum, "task") == "hard"


def test_a_restored_state_goes_on_the_same() -> None:
    rates = {f"t{number}": number / 19 for number in range(20)}
    curriculum = with_tasks(rates)
    for _ in range(30):
        next_turn(curriculum)
    other = make()
    other.restore(json.loads(json.dumps(curriculum.state())))
    assert other.state() == curriculum.state()
    assert other.metrics() == curriculum.metrics() == {"curriculum_easy": 5.0, "curriculum_hard": 5.0}
    for number in range(40):
        assert next_turn(other) == next_turn(curriculum)
        for one in (other, curriculum):
            one.observe("a", f"t{number % 20}", (number * 7 % 11) / 10)
    assert other.state() == curriculum.state()


def test_seeds_differ() -> None:
    def turns(seed: int) -> list[int | None]:
        curriculum = with_tasks({"h": 0.0})
        curriculum.seed = seed
        return [next_turn(curriculum) for _ in range(40)]

    assert turns(1) == turns(1) != turns(2)


@pytest.mark.parametrize(("endless", "kept"), [(("a",), ["1", "2", "3", "0"]), ((), ["4", "5", "1", "2", "3", "0"])], ids=str)
def test_an_endless_source_is_remembered_up_to_a_bound(
    endless: tuple[str, ...], kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "ENDLESS_POOL", 4)
    known = with_tasks({key: 0.0 for key in "045123"}, endless=endless)
    known.observe("a", "0", 0.0)  # seen again, so it is the newest
    known.next_step()
    assert list(known.pools["a"]["hard"]) == kept
