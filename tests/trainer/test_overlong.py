"""The soft punishment of length: in the reward, in the components and in the reason, never in the status."""

from __future__ import annotations

import pytest
from groups import RIGHT, UNSCORED, WRONG, group

from verigym.envs import Score, Status
from verigym.trainer.overlong import punish_overlong
from verigym.trainer.rollout import verdict_metrics


def test_rewards_fall_over_the_last_tokens() -> None:
    long = Score.correct(reason="equal")
    made = group("a", [RIGHT, long, WRONG, RIGHT, UNSCORED], tokens=[80, 90, 100, 95, 100], cut=[2, 4])
    punished = punish_overlong(made, 100, 20)
    assert [score.reward for score in punished.scores] == [1.0, 0.5, -1.0, 0.25, None]
    assert [score.components.get("overlong") for score in punished.scores] == [0.0, -0.5, -1.0, -0.75, None]
    assert [score.reason for score in punished.scores[:3]] == ["", "equal; -0.50 for 90 tokens", "-1.00 for 100 tokens"]
    assert [score.status for score in punished.scores] == [score.status for score in made.scores]
    assert punished.scores[4] is UNSCORED
    assert verdict_metrics([punished])["accuracy"] == 0.75
    assert verdict_metrics([punished])["reward"] == pytest.approx(0.75 / 4)


def test_other_components_stay() -> None:
    score = Score(reward=0.5, status=Status.PARTIAL, components={"math": 0.5})
    (found,) = punish_overlong(group("a", [score], tokens=[3]), 4, 2).scores
    assert found.components == {"math": 0.5, "overlong": -0.5}
    assert found.reward == 0.0
