"""The soft punishment of length: in the reward, in the components and in the reason, never in the status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from groups import RIGHT, UNSCORED, WRONG, group
from runs import run

from verigym.envs import Score, Status, UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.credit.overlong import price_truncated, punish_overlong
from verigym.trainer.preflight import refuse_unstartable
from verigym.trainer.rollout.collect import verdict_metrics


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


def test_being_cut_off_has_a_price() -> None:
    made = group("a", [RIGHT, Score.correct(reason="equal"), WRONG, UNSCORED], cut=[1, 2, 3])
    priced = price_truncated(made, -1.0)
    assert [score.reward for score in priced.scores] == [1.0, -1.0, -1.0, None]
    assert [score.reason for score in priced.scores[:3]] == ["", "equal; -1 for being cut off", "-1 for being cut off"]
    assert [score.status for score in priced.scores] == [score.status for score in made.scores]
    assert priced.scores[3] is UNSCORED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"overlong_cache": 4}, "overlong_cache prices already"),
        ({"step_rewards": True}, "which step_rewards and gdpo do not look at"),
        ({"truncated": "mask"}, "truncated: mask leaves out the completions that truncated_reward would price"),
        ({"advantage": "maxrl"}, "maxrl refuses rewards below 0, such as this truncated_reward"),
    ],
)
def test_a_price_that_nothing_looks_at_is_refused(fields: dict[str, object], message: str) -> None:
    run = {"model": "m", "output": "o", "sources": [{"environment": "arithmetic"}], "truncated_reward": -1.0}
    with pytest.raises(UsageError, match=message):
        refuse_unstartable(build_config({**run, **fields}, "test"))


def test_a_run_pays_it(letters_model: Path, tmp_path: Path) -> None:
    rows = run(letters_model, tmp_path, truncated_reward=-7.0, steps=1, samples_per_step=16, max_new_tokens=4)
    written = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    cut = [sample["reward"] for sample in written if sample["finish_reason"] == "length"]
    assert cut and set(cut) == {-7.0}
    assert all(sample["reward"] >= 0 for sample in written if sample["finish_reason"] != "length")
    cut_share = rows[0]["truncated"]
    assert -7 * cut_share <= rows[0]["reward"] <= -7 * cut_share + (1 - cut_share)
