"""The sentences at the top of a report: each says what the figures below it say, and takes it for no more than it is."""

from __future__ import annotations

from typing import Any

import pytest
from report_inputs import train_row

from verigym.report.comparison import compare_prompts, run_summary
from verigym.report.figures import PromptTally, Tally
from verigym.report.findings import Weight, findings
from verigym.report.record import Record


def samples(label: str, verdicts: dict[str, list[str]]) -> tuple[dict[str, Any], dict[str, PromptTally]]:
    """An evaluation as the page gets it: statuses by prompt, of the source that the prompt's name begins with."""
    tally = Tally()
    for prompt, statuses in verdicts.items():
        for status in statuses:
            reward = None if status == "error" else float(status == "correct")
            tally.add(
                Record(input=0, kind="graded", source=prompt[0], status=status, reward=reward, prompt_id=prompt)  # type: ignore[arg-type]
            )
    return {"label": label, "figures": tally.as_json(by_prompt=True)}, tally.prompts


def run(rows: list[dict[str, Any]], statuses: dict[str, int], planned: int | None = None) -> dict[str, Any]:
    return {
        "label": "mine",
        "run": run_summary(rows, planned) | {"statuses": statuses},
        "figures": {"samples": 0, "sources": []},
    }


def test_a_run_says_where_it_began_and_ended() -> None:
    rows = [train_row(step, reward=0.25 if step <= 10 else 0.75) for step in range(1, 21)]
    rows += [{"kind": "eval", "step": step, "accuracy": accuracy} for step, accuracy in ((0, 0.5), (10, 0.75), (20, 0.625))]
    first, *rest = findings([run(rows, {"correct": 100}, 40)], [])
    assert first.text == (
        "mine: 20 of 40 steps, reward of the first and the last steps 0.250 \u2192 0.750, "
        "accuracy on its own held-out prompts 50.0% \u2192 62.5%."
    )
    assert rest == [(Weight.GOOD, "Each of 100 completions has a verdict (unscored: 0).")]


def test_rewards_of_a_judge_that_raised_are_not_called_verdicts() -> None:
    tally = Tally()
    for index, cause in enumerate(["ValueError: no at mine.py:3 in judge"] * 2 + ["KeyError: 'x' at mine.py:5 in judge", ""]):
        tally.add(Record(0, "graded", "a", "limit" if cause else "correct", 0.0, prompt_id=f"a{index}", raised=cause))
    rows = [train_row(1, reward=0.5, judge_exceptions=3), train_row(2, reward=0.5, judge_exceptions=1)]
    inputs = [{"label": "graded", "figures": tally.as_json(by_prompt=True)}, run(rows, {"correct": 90, "limit": 10})]
    bad = [one.text for one in findings(inputs, []) if one.weight is Weight.BAD]
    assert bad == [
        "graded: judge raised on 3 of 4 completions, whose scores are not to be trusted (mostly ValueError: no at mine.py:3 in "
        "judge).",
        "mine: judge raised on 4 of 100 completions, whose scores are not to be trusted (the warnings say where).",
    ]
    assert not [one for one in findings(inputs, []) if one.weight is Weight.GOOD]


def test_a_short_run_has_no_first_and_last_steps() -> None:
    assert findings([run([train_row(1, reward=0.5)], {})], []) == [(Weight.PLAIN, "mine: 1 step.")]


def test_what_has_no_verdict_is_said_of_each_input_and_nothing_good_beside() -> None:
    evaluated, _ = samples("model", {"a1": ["correct", "error"], "a2": ["incorrect", "truncated"]})
    found = findings([run([], {"correct": 90, "error": 10}), evaluated], [])
    assert [one.text.partition(" (failures")[0] for one in found if one.weight is Weight.BAD] == [
        "mine: 10 of 100 completions are unscored",
        "model: 1 of 4 completions are unscored",
        "model: 25.0% of the completions were cut off by the token limit.",
    ]
    assert not [one for one in found if one.weight is Weight.GOOD]


def test_samples_without_any_verdict_have_no_accuracy() -> None:
    evaluated, _ = samples("model", {"a1": ["error", "error"]})
    assert findings([evaluated], [])[0] == (Weight.BAD, "model: none of 2 samples has a verdict.")


@pytest.mark.parametrize(
    ("changed", "weight", "told"),
    [
        ("correct", Weight.GOOD, "better by +100.0 points"),
        ("incorrect", Weight.PLAIN, "no difference can be told, for the interval has 0 in it: +0.0 points"),
    ],
)
def test_a_difference_is_taken_for_one_where_its_interval_leaves_out_0(changed: str, weight: Weight, told: str) -> None:
    first, of_first = samples("old", {f"{source}{n}": ["incorrect"] * 2 for source in "ab" for n in range(8)})
    other, of_other = samples("new", {f"{source}{n}": [changed] * 2 for source in "ab" for n in range(8)})
    forth = {"first": 0, "other": 1, "twins": None, "prompts": compare_prompts(of_first, of_other)}
    (found,) = [one for one in findings([first, other], [forth]) if "against" in one.text]
    assert found.weight is weight and found.text.startswith(f"new against old, on the same 16 prompts: {told}")
    level = "100.0%" if changed == "correct" else "0.0%"
    assert f"(a 0.0% \u2192 {level}, +" in found.text and f"; b 0.0% \u2192 {level}, +" in found.text
    if changed == "correct":
        back = {"first": 0, "other": 1, "twins": None, "prompts": compare_prompts(of_other, of_first)}
        (found,) = [one for one in findings([other, first], [back]) if "against" in one.text]
        assert found.weight is Weight.BAD and "worse by -100.0 points [-100.0, -100.0]" in found.text


@pytest.mark.parametrize(
    ("lost", "weight", "told", "but"),
    [
        (8, Weight.BAD, "no difference can be told", "; but better on a, worse on b. More prompts narrow it."),
        (5, Weight.BAD, "better by", "; but worse on b."),
        (0, Weight.GOOD, "better by", None),
    ],
)
def test_a_source_that_gets_worse_is_named_where_the_whole_does_not(
    lost: int, weight: Weight, told: str, but: str | None
) -> None:
    before = {f"a{n}": ["incorrect"] * 2 for n in range(8)} | {f"b{n}": ["correct"] * 2 for n in range(8)}
    after = {f"a{n}": ["correct"] * 2 for n in range(8)} | {
        f"b{n}": ["incorrect" if n < lost else "correct"] * 2 for n in range(8)
    }
    (first, of_first), (other, of_other) = samples("old", before), samples("new", after)
    if lost == 5:  # more of the source that gains
        more = {f"a{n}": ["correct"] for n in range(8, 40)}
        of_first |= samples("old", {name: ["incorrect"] for name in more})[1]
        of_other |= samples("new", more)[1]
    pair = {"first": 0, "other": 1, "twins": None, "prompts": compare_prompts(of_first, of_other)}
    (found,) = [one for one in findings([first, other], [pair]) if "against" in one.text]
    assert found.weight is weight and told in found.text
    assert found.text.endswith(but) if but else "; but" not in found.text


def test_a_difference_by_source_is_that_of_its_own_prompts() -> None:
    _, of_first = samples("old", {"a1": ["incorrect"], "a2": ["correct"], "b1": ["correct"]})
    _, of_other = samples("new", {"a1": ["correct"], "a2": ["correct"], "b1": ["incorrect"], "c1": ["correct"]})
    compared = compare_prompts(of_first, of_other)
    assert compared is not None and compared["prompts"] == 3 and compared["gain"] == 0
    assert [(one["source"], one["prompts"], one["gain"], one["better"], one["worse"]) for one in compared["sources"]] == [
        ("a", 2, 0.5, 1, 0),
        ("b", 1, -1.0, 0, 1),
    ]
    (alone,) = [compare_prompts({"a1": of_first["a1"]}, of_other)]
    assert alone is not None and alone["sources"] == []


@pytest.mark.parametrize(
    ("agreed", "judged", "weight", "told"),
    [
        (7, 8, Weight.BAD, "they disagree on whether 1 of 8 are right."),
        (8, 8, Weight.GOOD, "they agree on which are right."),
        (0, 0, Weight.BAD, "there is none on which both have a verdict."),
    ],
)
def test_two_graders_of_the_same_completions_are_not_better_or_worse(
    agreed: int, judged: int, weight: Weight, told: str
) -> None:
    first, of_first = samples("strict", {"a1": ["incorrect"] * 9})
    other, of_other = samples("lax", {"a1": ["correct"] * 9})
    twins = {"common": 9, "agreed": agreed, "judged": judged}
    pair = {"first": 0, "other": 1, "twins": twins, "prompts": compare_prompts(of_first, of_other)}
    found = [one for one in findings([first, other], [pair]) if " and " in one.text]
    assert found == [(weight, f"lax and strict on the same 9 completions: {told}")]


def test_warnings_are_counted() -> None:
    rows = [{"kind": "warning", "step": 3}, {"kind": "warning", "step": 4}]
    assert (Weight.BAD, "mine: 2 warnings, below.") in findings([run(rows, {"correct": 1})], [])
