"""The study of RL against expert iteration: its counts and intervals by hand, and one arm of it in small."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
Part = Callable[[str], Any]


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Part:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_what_a_grpo_run_has_spent(part: Part) -> None:
    accounts = part("rl_or_ei_parts.accounts")
    rows = [
        {"kind": "eval", "step": 0, "accuracy": 0.5},
        {"kind": "train", "step": 1, "completions": 8.0, "completion_tokens": 10.5, "rows_with_gradient": 4.0},
        {"kind": "warning", "step": 1},
        {"kind": "train", "step": 2, "completions": 16.0, "completion_tokens": 12.0, "rows_with_gradient": 0.0},
    ]
    first, second = accounts.rl_spent(rows)
    assert first == accounts.Spent(tokens=84, completions=8, updates=1, learned_tokens=42)
    assert second == accounts.Spent(tokens=84 + 192, completions=24, updates=2, learned_tokens=42)
    *_, twice = accounts.rl_spent(rows, epochs=2, updates=3)
    assert twice == accounts.Spent(tokens=84 + 192, completions=24, updates=12, learned_tokens=84)


def test_an_interval_over_seeds_and_their_own_tasks(part: Part) -> None:
    figures = part("rl_or_ei_parts.figures")
    assert figures.ratio([(1, 2), (0, 2), (2, 4)]) == 3 / 8
    flat = [[(1.0, 2.0)] * 5, [(1.0, 2.0)] * 50]
    assert figures.nested_interval(flat, key="a") == (0.5, 0.5)
    # All doubt lies between the seeds: both, or one of them twice.
    apart = figures.nested_interval([[(0.0, 1.0)] * 400, [(1.0, 1.0)] * 20], key="a")
    assert apart == (0, 1)
    # All doubt lies between the tasks: of 400 draws the mean's error is 0.025.
    low, high = figures.nested_interval([[(0.0, 1.0), (1.0, 1.0)] * 200], key="a")
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.01) and high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.01)
    for nothing in ([], [[(1.0, 1.0)], []], [[(0.0, 0.0)]]):
        with pytest.raises(ValueError, match="something is counted"):
            figures.nested_interval(nothing, key="a")


def test_what_sampling_and_fitting_have_spent(part: Part, tmp_path: Path) -> None:
    accounts = part("rl_or_ei_parts.accounts")
    score = {"reward": 1.0, "status": "correct", "answer": "3", "grader": "x@1", "reason": "right"}
    line = {
        "number": 0,
        "source": "sums",
        "messages": [{"role": "user", "content": "1+2=?"}],
        "prompt_key": "k",
        "metadata": {},
    }
    samples = [["\\boxed{3}", tokens, "stop", score] for tokens in (5, 7, 30)]
    lines = [{"identity": "x"}, {**line, "samples": samples}, {**line, "number": 1, "samples": samples[:1]}]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert accounts.sampling_stage(tmp_path) == accounts.Spent(tokens=47, completions=4)
    rows = [
        {"kind": "train", "step": 1, "tokens": 100.0},
        {"kind": "eval", "step": 1, "loss": 1},
        {"kind": "train", "step": 2, "tokens": 60.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert accounts.fitting_stage(tmp_path) == accounts.Spent(updates=2, learned_tokens=160)


@pytest.mark.parametrize(
    ("budget", "spent", "turns", "unit", "length", "units"),
    [
        (4000, 0, 4, 8, 12.5, 10),
        (4000, 1000, 1, 8, 12.5, 30),
        (4000, 3990, 1, 8, 12.5, 1),  # too little is left for one unit, and a turn has at least one
        (4000, 0, 1, 192, 10.0, 2),
    ],
)
def test_a_portion_brings_an_arm_closest_to_its_share(
    part: Part, budget: int, spent: int, turns: int, unit: int, length: float, units: int
) -> None:
    assert part("rl_or_ei_parts.accounts").portion(budget, spent, turns, unit, length) == units


def test_a_portion_of_nothing_is_refused(part: Part) -> None:
    with pytest.raises(ValueError, match="got 0, 8, 10"):
        part("rl_or_ei_parts.accounts").portion(100, 0, 0, 8, 10.0)


def test_the_interval_over_seeds_is_students(part: Part) -> None:
    figures = part("rl_or_ei_parts.figures")
    low, high = figures.t_interval([1.0, 2.0, 3.0])
    half = 4.303 / math.sqrt(3)  # the deviation is 1, with two degrees of freedom
    assert (low, high) == pytest.approx((2 - half, 2 + half))
    assert figures.t_interval([0.5]) is None
    assert figures.t_interval([0.5, 0.5]) == (0.5, 0.5)


def test_the_bootstrap_draws_seeds_and_questions(part: Part) -> None:
    crossed = part("rl_or_ei_parts.figures").crossed_interval
    assert crossed([[0.25] * 5] * 3, key="k") == (0.25, 0.25)
    # Only the seeds differ: of 27 draws of three, one in 27 is all the lowest, more than 2.5%.
    assert crossed([[0.0] * 9, [0.3] * 9, [0.6] * 9], key="k") == pytest.approx((0.0, 0.6))
    # Only the questions differ: the mean of 400 draws of 0 and 1 has a standard error of 0.025.
    low, high = crossed([[0.0, 1.0] * 200] * 3, key="k")
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.025, 0.5 + 1.96 * 0.025), abs=0.006)
    assert crossed([[0.0, 1.0] * 200] * 3, key="k") == (low, high)


@pytest.mark.parametrize("values", [[], [[]], [[1.0], [1.0, 0.0]]])
def test_seeds_with_other_questions_are_refused(part: Part, values: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="each seed needs the same questions"):
        part("rl_or_ei_parts.figures").crossed_interval(values, key="k")


@pytest.fixture
def small(part: Part, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sums of one digit, which a small model is often right on after a short cold start."""
    settings = part("rl_or_ei_parts.settings")
    task = {"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}}
    monkeypatch.setitem(settings.MIXTURES, "small", [task])
    return settings.Sizes(
        hidden_size=64,
        layers=2,
        heads=2,
        intermediate_size=128,
        cold_steps={"small": 80},
        cold_learning_rate=1e-2,
        steps=4,
        prompts_per_step=6,
        group_size=4,
        held_out=5,
        samples=2,
        points=2,
    )


@pytest.mark.slow
def test_arms_spend_the_same_tokens_and_nothing_is_done_twice(part: Part, small: Any, tmp_path: Path) -> None:
    settings, arms, study = part("rl_or_ei_parts.settings"), part("rl_or_ei_parts.arms"), part("rl_or_expert_iteration")
    seed_study = arms.SeedStudy(tmp_path, "small", 0, small)
    with pytest.raises(ValueError, match="grpo sets the budget"):
        seed_study.run("both", settings.ARMS["both"])
    seed_study = arms.SeedStudy(tmp_path, "small", 0, small)
    grpo = seed_study.run("grpo", settings.ARMS["grpo"])
    both = seed_study.run("both", settings.Arm(("ei", "rl")))
    assert [point.spent.updates for point in grpo.curve] == [0, 2, 4]
    assert grpo.curve[-1].spent.completions == 4 * 6 * 4
    assert grpo.curve[-1].spent.tokens == grpo.budget == both.budget
    assert both.curve[0] == grpo.curve[0]  # the same cold start
    assert len(both.curve) == 3
    assert both.curve[-1].spent.tokens == pytest.approx(both.budget, rel=0.25)  # a step is a quarter of this budget
    assert both.curve[0].right.keys() == both.curve[-1].right.keys() == grpo.greedy.keys()

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("stage.json")}
    again = arms.SeedStudy(tmp_path, "small", 0, small)
    assert again.run("grpo", settings.ARMS["grpo"]) == grpo
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("stage.json")} == before

    rows = {name: study.figures([run], [grpo]) for name, run in (("grpo", grpo), ("both", both))}
    assert rows["grpo"]["less_grpo"] == 0
    assert study.table("small", [grpo], rows).count("\n| ") == 5
    study.draw({"small": {"grpo": [grpo], "both": [both]}}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
