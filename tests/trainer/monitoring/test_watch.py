"""The watch: what each warning needs and says, that a healthy run hears none, and that a resumed run knows what it knew."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from groups import group

from verigym.envs import Score, Status
from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.monitoring import MonitoringFields
from verigym.trainer.monitoring.detectors import Alarm
from verigym.trainer.monitoring.watch import Watch, build_watch, read_past, report_alarms, with_texts
from verigym.trainer.rollout.collect import Group

# Recorded on 2026-11-22 from `verigym quickstart` (400 steps, seed 0, one thread): held-out accuracy 0.27 at first.
QUICKSTART = Path(__file__).parent.parent / "support/quickstart_curve.csv"

FLAT = {"groups_without_signal": 1.0, "rows_with_advantage": 0.0}
"""Equal rewards in every group, and a rule that learns from nothing else; a KL gives a gradient all the same."""

Change = Callable[[int], dict[str, Any]]


def row(step: int, **changes: Any) -> dict[str, Any]:
    healthy = {
        "step": step,
        "kind": "train",
        "reward": 0.5,
        "accuracy": 0.5,
        "completions": 32.0,
        "unscored": 0.0,
        "completion_tokens": 100.0,
        "sampled_nll": 1.0,
        "groups_without_signal": 0.25,
        "rows_with_advantage": 24.0,
        "logprob_mismatch": 1e-6,
        "loss": 0.0,
        "grad_norm": 0.3,
    }
    return healthy | changes


def feed(watch: Watch, change: Change, steps: int, start: int = 1) -> list[Alarm]:
    return [alarm for step in range(start, start + steps) for alarm in watch.update(row(step, **change(step)))]


def alarms(change: Change, steps: int = 80, **settings: Any) -> list[Alarm]:
    return feed(build_watch(MonitoringFields(**settings)), change, steps)


def from_step(first: int, **changes: Any) -> Change:
    return lambda step: changes if step >= first else {}


def test_a_healthy_run_hears_nothing() -> None:
    assert alarms(lambda step: {}, 300) == []


def test_the_quickstart_hears_nothing() -> None:
    watch = build_watch(MonitoringFields())
    with QUICKSTART.open() as file:
        rows = [{name: float(value) for name, value in line.items()} for line in csv.DictReader(file)]
    assert len(rows) == 400
    assert [alarm.text for line in rows for alarm in watch.update({**line, "kind": "train"})] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({**FLAT, "reward": 0.0, "accuracy": 0.0}, "mean 0, accuracy 0"),
        ({**FLAT, "reward": 1.0, "accuracy": 1.0}, "every completion is right"),
        ({**FLAT, "reward": None, "unscored": 32.0}, "no completion gets a verdict"),
        ({"grad_norm": 0.0}, "the gradient is exactly 0"),
        ({"rows_with_advantage": 0.0}, "no completion that is trained on has an advantage"),
    ],
    ids=["nothing right", "all right", "no verdicts", "no gradient", "all masked"],
)
def test_a_dead_run_is_said_after_the_steps_that_were_set(changes: dict[str, Any], expected: str) -> None:
    change = from_step(31, **{name: value for name, value in changes.items() if value is not None})
    if changes.get("reward", 0) is None:
        watch = build_watch(MonitoringFields(dead_run_steps=7, unscored_share=1.0))
        rows = [row(step, **change(step)) for step in range(1, 60)]
        found = [a for r in rows for a in watch.update({k: v for k, v in r.items() if k != "reward" or r["step"] < 31})]
    else:
        found = alarms(change, 59, dead_run_steps=7)
    (alarm,) = found
    assert (alarm.name, alarm.step, alarm.since, alarm.stop) == ("dead_run", 37, 31, False)
    assert expected in alarm.seen
    assert alarm.advice


def test_a_step_without_an_update_is_dead_and_one_good_step_ends_the_count() -> None:
    watch = build_watch(MonitoringFields(dead_run_steps=3))
    found = []
    for step in range(1, 13):
        line = row(step)
        if step % 4:  # three dead ones, then a good one
            del line["loss"], line["grad_norm"]
        found += [(alarm.name, alarm.step, alarm.since) for alarm in watch.update(line)]
    assert found == [("dead_run", 3, 1)]
    assert alarms(lambda step: {"grad_norm": 0.0 if step % 3 else 0.1}, dead_run_steps=3) == []


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"reward_spread": 0.0, "reward": 0.1, "accuracy": 0.0}, "all rewards of the step are equal (mean 0.1, accuracy 0)"),
        ({"reward_spread": 1e-9, "reward": 1.0, "accuracy": 1.0}, "every completion is right"),
        ({"reward_spread": 1.0, "grad_norm": 0.0}, "the gradient is exactly 0"),
    ],
)
def test_with_a_critic_a_step_of_equal_rewards_teaches_nothing(changes: dict[str, Any], seen: str) -> None:
    """Its own errors give every token an advantage; with one completion a prompt each group has equal rewards."""
    alone = {"reward_spread": 1.0, "groups_without_signal": 1.0}
    (alarm,) = alarms(lambda step: alone | (changes if step > 4 else {}), 12, dead_run_steps=5)
    assert (alarm.name, alarm.step, alarm.since) == ("dead_run", 9, 5)
    assert seen in alarm.seen


def test_equal_totals_alone_stop_nothing() -> None:
    """Leftovers, components, steps and the rest of the batch teach where a step's own groups have equal rewards."""
    assert alarms(from_step(1, groups_without_signal=1.0, reward=0.0), 60, on_dead_run="stop", dead_run_steps=3) == []


@pytest.mark.parametrize(("on", "stops"), [("warn", False), ("stop", True)])
def test_a_dead_run_stops_where_the_settings_say_so(on: str, stops: bool) -> None:
    found = alarms(from_step(1, **FLAT), 20, on_dead_run=on)
    assert [alarm.stop for alarm in found] == [stops]


def test_updates_that_are_not_finite_stop_the_run_after_so_many_in_a_row() -> None:
    assert alarms(lambda step: {"grad_norm": None} if step % 3 else {}, max_bad_steps=3) == []
    found = alarms(from_step(5, loss=None, grad_norm=None), 7, max_bad_steps=3)
    assert [(alarm.name, alarm.step, alarm.since, alarm.stop) for alarm in found] == [("not_finite", 7, 5, True)]


@pytest.mark.parametrize("name", ["value_loss", "critic_grad_norm"])
def test_a_critic_that_is_not_finite_stops_the_run_too(name: str) -> None:
    (alarm,) = alarms(from_step(5, **{name: None}), 7, max_bad_steps=3)
    assert (alarm.name, alarm.step, alarm.since, alarm.stop) == ("not_finite", 7, 5, True)
    assert name in alarm.seen


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("sampled_nll", {"sampled_nll": 0.04}, "0.04 times"),
        ("sampled_nll", {"sampled_nll": 4.5}, "4.5 times"),
        ("length", {"completion_tokens": 20.0}, "0.2 times the 100"),
        ("length", {"completion_tokens": 450.0}, "4.5 times the 100"),
        ("unscored", {"unscored": 8.0}, "25% of the completions get no verdict; 0%"),
        ("logprob_mismatch", {"logprob_mismatch": 0.2}, "0.2 nats"),
    ],
)
def test_a_change_that_lasts_is_said_with_the_step_since_when(name: str, changes: dict[str, Any], expected: str) -> None:
    (alarm,) = alarms(from_step(41, **changes), 60)
    assert (alarm.name, alarm.step, alarm.since) == (name, 45, 45), "a median of 9 follows the fifth"
    assert expected in alarm.seen
    last = alarms(from_step(41, **changes), 60, warn_every=1)[-1]
    assert (last.step, last.since) == (60, 45)


def test_low_and_high_get_different_advice() -> None:
    (low,), (high,) = (alarms(from_step(41, completion_tokens=value), 60) for value in (1.0, 1000.0))
    assert low.advice != high.advice
    assert "repetition" in high.advice


def test_one_odd_step_is_not_news() -> None:
    odd = {"sampled_nll": 0.0, "completion_tokens": 9e9, "unscored": 32.0, "logprob_mismatch": 50.0, "reward": 100.0}
    assert alarms(lambda step: odd if step % 10 == 0 else {}) == []


def test_a_metric_that_was_zero_at_first_is_not_compared() -> None:
    assert alarms(lambda step: {"sampled_nll": 0.0 if step < 20 else 1.0}) == []


def test_a_reward_that_jumps_is_suspicious_only_with_shorter_completions() -> None:
    jump = {"reward": 0.9, "completion_tokens": 40.0}
    (alarm,) = alarms(from_step(41, **jump), 60)
    assert (alarm.name, alarm.since) == ("reward_jump", alarm.step)
    assert "from 0.5" in alarm.seen
    assert alarms(from_step(41, reward=0.9), 60) == []
    assert alarms(from_step(41, completion_tokens=40.0), 60) == []
    slowly = lambda step: {"reward": 0.005 * step, "completion_tokens": 100 - 0.5 * step}  # noqa: E731
    assert alarms(slowly, 100) == []


def test_a_missing_metric_is_passed_over() -> None:
    watch = build_watch(MonitoringFields())
    assert [watch.update({"step": step, "kind": "train", "grad_norm": 0.1}) for step in range(1, 50)] == [[]] * 49


def test_a_warning_is_repeated_at_most_every_so_many_steps() -> None:
    found = alarms(from_step(1, logprob_mismatch=1.0), 100, warn_every=30)
    assert [alarm.step for alarm in found] == [9, 39, 69, 99]
    assert {alarm.since for alarm in found} == {9}
    # One that stops the run is never held back.
    stops = alarms(from_step(1, **FLAT), 25, on_dead_run="stop", warn_every=1000)
    assert [alarm.step for alarm in stops] == [20, 21, 22, 23, 24, 25]


def test_a_resumed_watch_says_what_an_uninterrupted_one_would_have_said() -> None:
    def change(step: int) -> dict[str, Any]:
        sick = step > 25
        return {"sampled_nll": 0.01 if sick else 1.0, "logprob_mismatch": 1.0, **(FLAT if step > 50 else {})}

    settings = MonitoringFields(warn_every=15)
    whole = feed(build_watch(settings), change, 100)
    assert {alarm.name for alarm in whole} == {"sampled_nll", "logprob_mismatch", "dead_run"}
    for killed in (1, 9, 33, 60):
        before = feed(build_watch(settings), change, killed)
        logged = [row(step, **change(step)) for step in range(1, killed + 1)]
        watch = read_past(settings, [{"step": 0, "kind": "eval"}, *logged, *(alarm.row for alarm in before)]).watch
        assert before + feed(watch, change, 100 - killed, start=killed + 1) == whole


def test_alarms_are_said_and_recorded_and_may_stop_the_run() -> None:
    warn = Alarm("length", 7, 5, "it was seen", "do this")
    stop = Alarm("dead_run", 7, 2, "nothing", "stop it", stop=True)
    said: list[str] = []
    recorded: list[Any] = []
    report_alarms([warn], said.append, recorded.append)
    assert said == ["step 7: length: it was seen, since step 5; do this"]
    assert recorded == [
        {
            "step": 7,
            "kind": "warning",
            "name": "length",
            "since": 5,
            "seen": "it was seen",
            "advice": "do this",
            "stop": False,
            "sources": (),
        }
    ]
    with pytest.raises(UsageError, match="training stopped at step 7: dead_run: nothing, since step 2; stop it"):
        report_alarms([stop, warn], said.append, recorded.append)
    assert len(recorded) == 3, "the others are recorded, too"


def test_most_completions_without_an_answer() -> None:
    assert alarms(lambda step: {"no_answer": 0.4}) == []
    assert alarms(lambda step: {"no_answer": 0.9}, 4) == []
    (alarm, *_) = alarms(lambda step: {"no_answer": 0.9, "truncated": 0.1}, 5)
    assert (alarm.name, alarm.step, alarm.since, alarm.stop) == ("no_answer", 5, 5, False)
    assert alarm.seen == "no answer was found in 90% of the completions" and "one of its options" in alarm.advice
    (alarm,) = alarms(lambda step: {"no_answer": 0.5, "a/no_answer": 0.9, "a/truncated": 0.8, "b/no_answer": 0.1}, 5)
    assert alarm.seen == "no answer was found in 90% of the completions of a"
    assert alarm.advice == "80% are cut off: raise max_new_tokens"
    shares = {"no_answer": 0.9, "status/no_answer": 0.8, "a/no_answer": 0.9, "a/status/no_answer": 0.8}
    assert [alarm.sources for alarm in alarms(lambda step: shares, 5)] == [("a",)], "shares of statuses are no sources"


def test_nothing_ever_right_and_everything_right() -> None:
    flat = {**FLAT, "reward": 0.0, "accuracy": 0.0}
    (alarm,) = alarms(lambda step: flat, 5)
    assert alarm.name == "nothing_right"
    assert alarm.seen == "every completion so far has got the reward 0, and none was right"
    (alarm,) = alarms(lambda step: {**flat, "reward": 1.0, "accuracy": 1.0}, 5)
    assert alarm.name == "equal_rewards" and alarm.seen.endswith("the reward 1, all are right")
    assert alarms(lambda step: flat if step != 3 else {}, 15) == []
    by_source = {f"a/{name}": value for name, value in flat.items()}
    assert alarms(lambda step: {**flat, "rows_with_advantage": 3.0}, 15) == [], "components teach"
    by_source |= {"b/groups_without_signal": 0.5, "b/reward": 0.3, "b/accuracy": 0.3}
    (alarm,) = alarms(lambda step: by_source, 8)
    assert alarm.seen == "every completion of a so far has got the reward 0, and none was right"
    both = {**flat, **by_source, **{f"b/{name}": value for name, value in flat.items()}}
    (alarm,) = alarms(lambda step: both, 8)
    assert alarm.seen == "every completion of a, b so far has got the reward 0, and none was right"
    both |= {"b/reward": 1.0, "b/accuracy": 1.0}
    (alarm,) = alarms(lambda step: both, 8)
    assert alarm.seen == "every completion of a so far has got the reward 0, and none was right", "of b all are right"


def test_such_a_warning_shows_the_ends_of_three_texts() -> None:
    def texts(prefix: str, status: Status) -> Group:
        score = Score.correct() if status is Status.CORRECT else Score(reward=0.0, status=status)
        made = group("a", [score, score])
        return replace(made, texts=tuple(f"{prefix} {'x' * 100} end {place}" for place in range(2)))

    groups = [texts(name, Status.NO_ANSWER) for name in "pqrs"] + [texts("t", Status.CORRECT)]
    alarm = Alarm("no_answer", 5, 5, "no answer was found in 80% of the completions", "advice")
    seen = with_texts(alarm, groups).seen
    assert seen.count("end 1'") == 3 and len(seen) < 300
    assert with_texts(replace(alarm, name="length"), groups).seen == alarm.seen
    assert with_texts(alarm, groups[4:]) == alarm


def test_the_texts_shown_are_of_the_sources_that_the_warning_is_about() -> None:
    def texts(source: str, canary: bool = False) -> Group:
        made = group(source, [Score(reward=0.0, status=Status.NO_ANSWER)] * 2)
        prompt = made.prompt.model_copy(update={"metadata": {"canary": "reject"}}) if canary else made.prompt
        return replace(made, prompt=prompt, texts=(f"from {source}",) * 2)

    groups = [texts("b"), texts("a"), texts("b"), texts("a", canary=True)]
    flat = {"groups_without_signal": 1.0, "reward": 0.0, "accuracy": 0.0, "no_answer": 1.0}
    fine = {"groups_without_signal": 0.5, "reward": 0.3, "accuracy": 0.3, "no_answer": 0.0}
    both = {f"{source}/{name}": value for source, of in (("a", flat), ("b", fine)) for name, value in of.items()}
    found = alarms(lambda step: both, 5)
    assert [(alarm.name, alarm.sources) for alarm in found] == [("no_answer", ("a",)), ("nothing_right", ("a",))]
    for alarm in found:
        assert with_texts(alarm, groups).seen == f"{alarm.seen}. Some end in: 'from a'"
    whole = replace(found[0], sources=())
    assert with_texts(whole, groups).seen.count("from a") == 1 and with_texts(whole, groups).seen.count("from b") == 2
