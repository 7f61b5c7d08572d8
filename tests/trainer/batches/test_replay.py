"""Replay: which groups are kept, for how long, that each comes once, and that saved ones come back to the last bit."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from groups import RIGHT, UNSCORED, WRONG, group
from letters import LettersEnvironment

from verigym import WeightedSum
from verigym.envs import Environment, Score
from verigym.envs.contract.schema import StepScore
from verigym.trainer.batches.replay import Replay
from verigym.trainer.engines.base import Generated
from verigym.trainer.rollout.collect import Group
from verigym.trainer.rollout.group_json import dump_group, load_group

LETTERS: dict[str, Environment] = {"a": LettersEnvironment()}
RARE = [RIGHT, WRONG, WRONG, WRONG]


def make(**more: Any) -> Replay:
    return Replay(3, **{"size": 4, "below": 0.25, "max_age": 5, **more})


def rare(text: str) -> Group:
    return group("a", RARE, text=text)


def names(groups: list[Group]) -> list[str]:
    return [found.prompt.text for found in groups]


def kept(replay: Replay) -> list[str]:
    return [found.prompt.text for _, found in replay.kept]


def test_kept_are_rare_successes_only() -> None:
    replay = make()
    canary = replace(rare("c"), prompt=LettersEnvironment().prompt("c", metadata={"canary": "reject"}))
    others = [group("a", scores) for scores in ([WRONG] * 4, [RIGHT, RIGHT, WRONG, WRONG], [UNSCORED] * 4)]
    replay.offer(0, [*others, rare("rare"), canary, group("a", [RIGHT, WRONG, WRONG, UNSCORED], text="one of three")])
    assert kept(replay) == ["rare"]


def test_the_oldest_go_first_and_the_old_are_dropped() -> None:
    replay = make()
    for step in range(6):
        replay.offer(step, [rare(f"step {step}")])
    assert kept(replay) == ["step 2", "step 3", "step 4", "step 5"]
    assert replay.take(8, 0) == []
    assert kept(replay) == ["step 3", "step 4", "step 5"]
    assert len(replay.take(11, 9)) == 0
    assert kept(replay) == []


def test_each_comes_once_and_is_marked() -> None:
    replay = make()
    replay.offer(0, [rare(str(number)) for number in range(4)])
    first, second, third = replay.take(1, 3), replay.take(2, 3), replay.take(3, 3)
    assert [len(first), len(second), len(third)] == [3, 1, 0]
    assert sorted(names(first) + names(second)) == ["0", "1", "2", "3"]
    assert all(found.off_policy for found in first + second)
    assert {found.generated[0].logprobs for found in first} == {(-1.0, -1.0, -1.0)}


def test_a_restored_buffer_takes_the_same() -> None:
    replay = make(size=20)
    replay.offer(0, [rare(str(number)) for number in range(20)])
    other = make(size=20)
    other.restore(json.loads(json.dumps(replay.state())), LETTERS)
    assert other.kept == replay.kept
    taken = [names(replay.take(step, 3)) for step in range(4)]
    assert [names(other.take(step, 3)) for step in range(4)] == taken
    assert len({tuple(part) for part in taken}) == 4


def test_a_group_comes_back_to_the_last_bit() -> None:
    both = WeightedSum({"letters": 1.0, "format": 0.5}, {"letters": LettersEnvironment()})
    steps = (StepScore(start=0, end=2, reward=1 / 3, reason="because"),)
    score = Score.partial(math.pi / 7, answer="5", reason="naïve \ud800").model_copy(
        update={"components": {"letters": 0.1 + 0.2, "format": None}, "steps": steps, "grader": "g@1", "seconds": 1e-7}
    )
    made = Group(
        source="a",
        prompt=both.prompt("text \ud800", metadata={"row": 3}),
        prompt_ids=(5, 6),
        generated=(Generated((7, 8), (-1 / 3, -1e-300), "stop"), Generated((9,), (-math.e,), "length")),
        texts=("one", "数学 \ud800"),
        scores=(score, UNSCORED),
        off_policy=True,
    )
    again = load_group(json.loads(json.dumps(dump_group(made))), {"a": both})
    assert again == made
    assert type(again.prompt.references["letters"]) is type(made.prompt.references["letters"])


def test_a_group_of_an_older_checkpoint_is_read() -> None:
    """Its key was `earlier` before it was `off_policy`."""
    for off_policy in (False, True):
        made = replace(rare("old"), off_policy=off_policy)
        old = dump_group(made)
        old["earlier"] = old.pop("off_policy")
        assert load_group(json.loads(json.dumps(old)), LETTERS) == made
