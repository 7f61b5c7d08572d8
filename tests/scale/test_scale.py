"""The scale model: what it reads from a run's metrics, and what it says, against sums by hand."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from scale_runs import DECODE_S, REST_S, TOKEN_S, TRAINED_TOKEN_S, UPDATE_S, write_run

from verigym.envs.contract.errors import UsageError
from verigym.scale.calibration import Costs, Verdicts, calibrate
from verigym.scale.lengths import LogNormal
from verigym.scale.plans import ENOUGH, fewest_workers, grid, plan, split
from verigym.scale.simulation import Plant, simulate


def costs(**changed: Any) -> Costs:
    """Return costs without chance: all lengths and times are equal."""
    fields: dict[str, Any] = {
        "completions": 8,
        "tokens_mean": 10,
        "tokens_largest": 10,
        "tokens_most": 100,
        "rows": 64,
        "decode_s": 0.1,
        "token_s": 0.01,
        "update_s": 1.0,
        "trained_token_s": 0.01,
        "rest_s": 0.25,
        "verdicts": (Verdicts(share=1.0, mean_s=0.5, largest_s=0.5, per_step=8),),
        "steps": 10,
        "one_size": False,
    }
    return Costs(**{**fields, **changed})


@pytest.mark.parametrize(("mean", "largest", "count"), [(20, 45, 64), (20, 22, 64), (5, 9, 8), (0.02, 0.05, 256)])
def test_a_distribution_has_the_mean_and_the_maximum_it_was_made_of(mean: float, largest: float, count: int) -> None:
    drawn, randomness = LogNormal.of(mean, largest, count), random.Random(7)
    steps = [[drawn.draw(randomness) for _ in range(count)] for _ in range(4000)]
    assert fmean(map(fmean, steps)) == pytest.approx(mean, rel=0.02)
    assert fmean(map(max, steps)) == pytest.approx(largest, rel=0.06)


def test_no_draw_is_larger_than_the_limit() -> None:
    drawn, randomness = LogNormal.of(50, 100, 64, most=60), random.Random(7)
    assert max(drawn.draw(randomness) for _ in range(1000)) == 60


def test_the_costs_of_two_sizes_are_found_exactly(tmp_path: Path) -> None:
    found = calibrate([write_run(tmp_path / "a", 64), write_run(tmp_path / "b", 256)])
    assert (found.decode_s, found.token_s) == (pytest.approx(DECODE_S), pytest.approx(TOKEN_S))
    assert (found.update_s, found.trained_token_s) == (pytest.approx(UPDATE_S), pytest.approx(TRAINED_TOKEN_S))
    assert (found.completions, found.rest_s) == (64, pytest.approx(REST_S))
    assert (found.steps, found.one_size) == (18, False)
    assert [one.model_dump() for one in found.verdicts] == [
        {"share": 1.0, "mean_s": pytest.approx(0.02), "largest_s": pytest.approx(0.05), "per_step": 64}
    ]
    assert calibrate([tmp_path / "a"]).one_size


def test_verdicts_are_told_apart_by_source(tmp_path: Path) -> None:
    by_source = {"quick/completions": 48, "quick/verdict_s": 0.001, "quick/verdict_max_s": 0.002}
    by_source |= {"slow/completions": 16, "slow/verdict_s": 1.0, "slow/verdict_max_s": 3.0}
    quick, slow = calibrate([write_run(tmp_path / "a", **by_source)]).verdicts
    assert (quick.share, slow.share) == (0.75, 0.25)
    assert (quick.mean_s, slow.mean_s, slow.largest_s, slow.per_step) == (pytest.approx(0.001), pytest.approx(1), 3, 16)


def test_a_step_is_the_sum_that_one_does_by_hand() -> None:
    of = simulate(costs(), Plant(workers=3))
    assert of.generation_s == pytest.approx(10 * (0.1 + 8 * 0.01))
    assert of.grade_wait_s == pytest.approx(3 * 0.5)  # 8 verdicts by 3 workers, in three rounds
    assert of.update_s == pytest.approx(1 + 80 * 0.01)
    assert of.step_s == pytest.approx(1.8 + 1.5 + 1.8 + 0.25)
    assert of.tokens_per_s == pytest.approx(80 / of.step_s)
    assert of.workers_busy == pytest.approx(8 * 0.5 / 3 / of.step_s)
    assert (of.servers_busy, of.learners_busy) == (pytest.approx(1.8 / of.step_s), pytest.approx(1.8 / of.step_s))


def test_servers_share_the_rows_and_learners_the_update() -> None:
    of = simulate(costs(), Plant(servers=2, workers=8, learners=4))
    assert of.generation_s == pytest.approx(10 * (0.1 + 4 * 0.01))
    assert (of.grade_wait_s, of.update_s) == (pytest.approx(0.5), pytest.approx(1.8 / 4))


def test_a_server_decodes_no_more_rows_than_fit() -> None:
    of = simulate(costs(rows=4), Plant(workers=8))
    assert of.generation_s == pytest.approx(2 * 10 * (0.1 + 4 * 0.01))
    assert of.grade_wait_s == pytest.approx(0.5)


def test_with_overlap_a_step_is_the_longer_half() -> None:
    of = simulate(costs(), Plant(workers=8, overlap=True))
    assert of.step_s == pytest.approx(max(1.8 + 0.5, 1.8) + 0.25)


def test_grading_runs_beside_generation() -> None:
    uneven = costs(tokens_largest=40, verdicts=(Verdicts(share=1, mean_s=0.01, largest_s=0.01, per_step=8),))
    of = simulate(uneven, Plant(workers=1))
    assert of.grade_wait_s < 0.02 < 8 * 0.01


def test_the_same_seed_gives_the_same_figures(tmp_path: Path) -> None:
    found = calibrate([write_run(tmp_path / "a"), write_run(tmp_path / "b", 128)])
    assert simulate(found, Plant(2, 4)) == simulate(found, Plant(2, 4)) != simulate(found, Plant(2, 4), seed=1)


def test_the_fewest_workers_are_the_fewest() -> None:
    slow = costs(completions=64, verdicts=(Verdicts(share=1.0, mean_s=0.5, largest_s=0.9, per_step=64),))
    found = fewest_workers(slow, Plant())
    endless = plan(slow, Plant(workers=64)).prediction.step_s
    assert 1 < found.plant.workers < 64
    assert found.prediction.step_s <= ENOUGH * endless
    assert plan(slow, Plant(workers=found.plant.workers - 1)).prediction.step_s > ENOUGH * endless


def test_plans_cover_what_is_asked() -> None:
    plants = [one.plant for one in grid(costs(), [1, 2], [3, 4], [False])]
    assert plants == [Plant(1, 3), Plant(1, 4), Plant(2, 3), Plant(2, 4)]
    assert [(one.plant.servers, one.plant.learners) for one in split(costs(), 4, True)] == [(1, 3), (2, 2), (3, 1)]
    [alone] = split(costs(), 1, True)
    assert (alone.plant.servers, alone.plant.learners, alone.plant.overlap) == (1, 1, False)
    assert plan(costs(), Plant(workers=1)).bound == "grading"
    assert plan(costs(), Plant(workers=8), completions=80).figures()["completions"] == 80


@pytest.mark.parametrize(
    ("settings", "changed", "message"),
    [
        ({"dynamic_sampling": True}, {}, "no part for dynamic_sampling"),
        ({"replay_share": 0.5}, {}, "no part for replay_share"),
        ({"overlap": "one_step"}, {}, "calibrate with a run without it"),
        ({}, {"chat/turns": 2.0}, "no part for episodes"),
        ({}, {"completion_tokens_max": None}, "a step has no 'completion_tokens_max'"),
        ({"max_new_tokens": None}, {}, "expected the settings of a GRPO run"),
    ],
)
def test_a_run_that_the_model_cannot_stand_for_is_refused(
    tmp_path: Path, settings: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        calibrate([write_run(tmp_path / "a", settings=settings, **changed)])


def test_too_few_steps_and_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 training steps"):
        calibrate([write_run(tmp_path / "a", steps=3)])
    with pytest.raises(UsageError, match="not the output folder of a training run"):
        calibrate([tmp_path])


def test_the_command_says_where_one_size_is_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from verigym.cli import main

    runs = [str(write_run(tmp_path / name, count)) for name, count in (("a", 64), ("b", 128))]
    assert main(["scale", *runs, "--servers", "1,2", "--workers", "4"]) == 0
    assert "all steps had one size" not in (shown := capsys.readouterr().out) and "bound by" in shown
    assert main(["scale", runs[0], "--servers", "2", "--workers", "4"]) == 0
    assert "all steps had one size" in capsys.readouterr().out
    assert main(["scale", runs[0], "--workers", "four"]) == 2
    assert "expected whole numbers above 0" in capsys.readouterr().err
