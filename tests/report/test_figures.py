"""What is counted over all samples, derived by hand."""

from __future__ import annotations

import pytest
from report_inputs import train_row

from verigym.report.comparison import CHANGED, SAME, UNPAIRED, Twins, compare_prompts, run_summary
from verigym.report.curves import curves
from verigym.report.figures import BINS, PromptTally, Tally, step_sources, step_statuses
from verigym.report.record import Record


def record(prompt: str, status: str, reward: float | None = None, **more: object) -> Record:
    value = float(status == "correct") if reward is None and status != "error" else reward
    fields: dict[str, object] = {
        "input": 0,
        "kind": "graded",
        "source": "s",
        "status": status,
        "reward": value,
        "prompt_id": prompt,
    }
    return Record(**(fields | more))  # type: ignore[arg-type]


def tally(*records: Record) -> Tally:
    found = Tally()
    for one in records:
        found.add(one)
    return found


def test_shares_are_among_scored_samples() -> None:
    found = tally(
        record("a", "correct", tokens=10), record("a", "incorrect", tokens=20), record("b", "error"), record("b", "correct")
    )
    (source,) = found.as_json(by_prompt=True)["sources"]
    assert source["statuses"] == {"correct": 2, "incorrect": 1, "error": 1}
    assert source["accuracy"] == 2 / 3 and source["reward"] == 2 / 3 and source["tokens"] == 15
    assert source["prompts"] == 2 and source["scored"] == 3 and 0 <= source["low"] <= 2 / 3 <= source["high"] <= 1


def test_several_sources_are_summed_up() -> None:
    found = tally(record("a", "correct"), record("b", "incorrect", source="t")).as_json(by_prompt=False)
    assert [(row["source"], row["accuracy"]) for row in found["sources"]] == [("", 0.5), ("s", 1.0), ("t", 0.0)]
    assert found["passRates"] == []


def test_difficulties_are_in_natural_order() -> None:
    records = [record(f"p{level}", "correct", difficulty=f"Level {level}") for level in (10, 2, 1)]
    rows = tally(*records, record("x", "incorrect")).as_json(by_prompt=True)["difficulties"]
    assert [row["difficulty"] for row in rows] == ["Level 1", "Level 2", "Level 10"]


@pytest.mark.parametrize(
    ("correct", "scored", "name"), [(0, 8, 0), (1, 8, 1), (2, 8, 1), (3, 8, 2), (4, 8, 2), (6, 8, 3), (7, 8, 4), (8, 8, 5)]
)
def test_prompts_by_their_share_of_right_samples(correct: int, scored: int, name: int) -> None:
    records = [record("a", "correct")] * correct + [record("a", "incorrect")] * (scored - correct)
    rates = {row["bin"]: row["prompts"] for row in tally(*records).as_json(by_prompt=True)["passRates"]}
    assert rates == {one: int(one == BINS[name]) for one in BINS}


def test_a_reward_is_expected_from_the_prompt_s_other_samples() -> None:
    found = tally(
        record("a", "correct"), record("a", "incorrect"), record("a", "incorrect"), record("b", "correct"), record("c", "error")
    )
    assert found.expected("a", "s", 1.0) == 0.0 and found.expected("a", "s", 0.0) == 0.5
    assert found.expected("b", "s", 1.0) == 1 / 3  # of the source: the prompt has no others
    assert tally(record("a", "correct")).expected("a", "s", 1.0) is None


def test_verdicts_of_all_steps_from_the_metrics() -> None:
    rows = [train_row(1), train_row(2), {"kind": "eval", "step": 2}]
    assert step_statuses(rows) == {"correct": 8, "incorrect": 16, "limit": 4, "error": 4}
    # An earlier log: 16 completions, of which 2 are unscored and a quarter of the others is right, another without an answer.
    old = {"kind": "train", "step": 1, "completions": 16.0, "unscored": 2.0, "accuracy": 0.25, "no_answer": 0.25}
    assert step_statuses([old] * 2) == {"correct": 7, "no_answer": 7, "error": 4, "incorrect": 14}
    assert step_statuses([{"kind": "train", "step": 1, "loss": 1.0}]) == {}


def test_two_graders_of_the_same_completions() -> None:
    twins = Twins()
    for place, statuses in enumerate((["correct", "correct", "incorrect", "error"], ["correct", "incorrect", "no_answer"])):
        for number, status in enumerate(statuses):
            twins.add(record("a", status, input=place, twin_id=f"t{number}"))
    found = twins.compare(0, 1)
    assert found is not None
    assert found["common"] == 3 and found["changed"] == 2 and found["onlyFirst"] == 1 and found["onlyOther"] == 0
    assert found["judged"] == 3 and found["agreed"] == 2  # wrong and without an answer are both not right
    assert ["correct", "incorrect", 1] in found["matrix"]
    assert [twins.change(0, f"t{number}") for number in range(4)] == [SAME, CHANGED, CHANGED, UNPAIRED]
    assert twins.compare(0, 2) is None and twins.change(0, "") == UNPAIRED


def test_two_models_on_the_same_prompts() -> None:
    def prompts(*shares: tuple[int, int]) -> dict[str, PromptTally]:
        return {f"p{place}": PromptTally("s", "", scored, correct) for place, (correct, scored) in enumerate(shares)}

    found = compare_prompts(prompts((1, 2), (0, 3), (2, 2), (0, 0)), prompts((2, 2), (1, 3), (1, 2), (1, 1)))
    assert found is not None
    assert found["prompts"] == 3 and found["better"] == 2 and found["worse"] == 1
    assert found["gain"] == pytest.approx((0.5 + 1 / 3 - 0.5) / 3)
    assert -0.5 <= found["low"] <= found["gain"] <= found["high"] <= 0.5
    assert compare_prompts(prompts((1, 2)), {}) is None


def test_the_interval_of_equal_differences_has_no_width() -> None:
    first = {f"p{n}": PromptTally("s", "", 4, 1) for n in range(5)}
    other = {f"p{n}": PromptTally("s", "", 4, 2) for n in range(5)}
    found = compare_prompts(first, other)
    assert found is not None and found["gain"] == found["low"] == found["high"] == 0.25


def test_a_run_s_row() -> None:
    rows = [train_row(step, reward=float(step)) for step in range(1, 21)]
    rows += [{"kind": "eval", "step": step, "accuracy": value} for step, value in ((0, 0.25), (10, 0.75), (20, 0.5))]
    found = run_summary(rows, 40)
    assert found["steps"] == 20 and found["planned"] == 40 and found["completions"] == 320 and found["unscored"] == 40
    assert (found["first"], found["last"], found["best"], found["bestStep"]) == (0.25, 0.5, 0.75, 10)
    assert found["reward"] == 15.5 and found["stepSeconds"] == 3.5
    assert run_summary([], None)["last"] is None


def test_curves_by_environment_and_component() -> None:
    rows = [train_row(1), {k: v for k, v in train_row(2, **{"status/truncated": 0.5}).items() if k != "kl"}]
    found = curves(2, rows, [("words", "format"), ("words", "absent"), ("words", "format/tags")])
    panels = {panel["key"]: panel for panel in found["panels"]}
    assert [line["source"] for line in panels["reward"]["lines"]] == ["", "sums", "words"]
    assert [line["metric"] for line in panels["components"]["lines"]] == ["words/format"]
    assert [line["source"] for line in panels["episodes_malformed_calls"]["lines"]] == ["words"]
    train = found["kinds"]["train"]
    assert train["steps"] == [1, 2] and train["values"]["kl"] == [0.01, None]
    assert train["values"]["status/truncated"] == [0.0, 0.5]  # a status that did not occur
    assert "held_out" not in panels


def test_a_status_has_the_share_0_only_where_its_source_was_asked() -> None:
    rows = [
        {
            "step": 1,
            "kind": "train",
            "a/unscored": 0.0,
            "a/status/correct": 0.5,
            "a/status/truncated": 0.5,
            "status/correct": 0.5,
        },
        {"step": 2, "kind": "train", "a/unscored": 0.0, "a/status/correct": 1.0, "unscored": 0.0},
        {"step": 3, "kind": "train", "b/unscored": 0.0, "unscored": 0.0},
    ]
    found = curves(0, rows, [])["kinds"]["train"]["values"]
    assert found["a/status/correct"] == [0.5, 1.0, None]
    assert found["a/status/truncated"] == [0.5, 0.0, None]
    assert found["status/correct"] == [0.5, 0.0, 0.0]


def test_a_run_s_sources_are_those_of_all_completions() -> None:
    step = {
        "kind": "train",
        "step": 1,
        "completions": 8,
        "unscored": 2,
        "accuracy": 0.5,
        "reward": 0.6,
        "completion_tokens": 10.0,
    }
    a = {"a/completions": 6, "a/unscored": 0, "a/accuracy": 0.5, "a/reward": 0.5, "a/completion_tokens": 8.0}
    silent = {"b/completions": 2, "b/unscored": 2, "b/completion_tokens": 16.0}
    later = {**step, "step": 2, **a, "a/accuracy": 1.0, "b/completions": 2, "b/unscored": 1, "b/accuracy": 1.0, "b/reward": 1.0}
    whole, first, second = step_sources([{**step, **a, **silent}, later, {"kind": "eval", "step": 2}])
    assert (whole["source"], whole["scored"], whole["accuracy"]) == ("", 12, 0.5)
    assert (first["source"], first["scored"], first["accuracy"], first["tokens"]) == ("a", 12, 0.75, 8.0)
    assert (second["source"], second["scored"], second["accuracy"], second["low"]) == ("b", 1, 1.0, None)
    assert step_sources([step]) == [], "of one source, or of an earlier version"
