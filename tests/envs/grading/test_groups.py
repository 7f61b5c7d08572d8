"""Groups that are graded together: one call, one worker, everyone's own verdict, and blame for the one who deserves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from group_envs import LengthGate, LongestEnvironment
from sample_envs import ExactEnvironment

from verigym.envs import AllOf, Completion, Gate, Status, WeightedSum
from verigym.envs.grading import Grader, grades_groups

ENV = LongestEnvironment()
PROMPT = ENV.prompt("q", answer="1")


def graded(texts: list[str], env: Any = ENV, prompt: Any = PROMPT, **settings: Any) -> list[Any]:
    with Grader(env, **{"workers": 0, "retries": 0, **settings}) as grader:
        return [future.result() for future in grader.submit_group(prompt, texts)]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_group_is_compared_in_one_call(workers: int) -> None:
    scores = graded(["aa", "a", "", "aaaa"], workers=workers)
    assert [score.reward for score in scores] == [2 / 3, 1 / 3, 0.0, 1.0]
    assert len({score.reason for score in scores}) == 1 and scores[0].reason.startswith("one of 4 in ")
    assert {score.grader for score in scores} == {ENV.grader}


def test_an_ordinary_environment_grades_each_by_itself() -> None:
    env = ExactEnvironment()
    assert grades_groups(ENV) and not grades_groups(env)
    scores = graded(["answer: 1", "answer: 2"], env, env.prompt("q", answer="1"))
    assert [score.status for score in scores] == ["correct", "incorrect"]


def test_a_group_of_one_is_an_item() -> None:
    (score,) = graded(["a"])
    assert score.reward is None and score.error.kind == "gold_invalid" and graded([]) == []


def test_one_without_a_verdict_leaves_the_others_theirs() -> None:
    scores = graded(["aa", "LOST", "a"])
    assert [score.reward for score in scores] == [0.5, None, 0.0]


@pytest.mark.parametrize("culprit", ["DIE", "RAISE", pytest.param("HANG", marks=pytest.mark.slow)])
def test_who_brings_the_grader_down_is_found_and_the_others_are_judged(culprit: str) -> None:
    scores = graded(["aa", culprit, "a"], workers=1, timeout_s=60.0 if culprit != "HANG" else 3.0)
    assert [score.status for score in scores] == [Status.PARTIAL, Status.LIMIT, Status.PARTIAL]
    # An empty completion stands where the culprit stood: the shorter of the others has somebody to beat.
    assert [score.reward for score in scores] == [1.0, 0.0, 0.5]
    assert "beside a control too" in scores[1].reason
    assert {score.grader for score in scores} == {ENV.grader}


@pytest.mark.parametrize(
    ("texts", "answer", "kind"),
    [
        (["aa", "a"], "broken", "internal"),  # the controls fail as well
        (["PAIR", "PAIR"], "1", "internal"),  # neither fails beside a control
        (["DOWN", "a"], "1", "backend"),
        (["SHORT", "a"], "broken", "internal"),
    ],
)
def test_what_is_nobody_s_fault_is_no_score(texts: list[str], answer: str, kind: str) -> None:
    scores = graded(texts, prompt=ENV.prompt("q", answer=answer))
    assert [(score.reward, score.error.kind) for score in scores] == [(None, kind)] * 2


def test_a_score_too_few_is_charged_to_no_other_text() -> None:
    scores = graded(["aa", "SHORT", "a"])
    assert [score.status for score in scores] == [Status.PARTIAL, Status.LIMIT, Status.PARTIAL]


def test_an_environment_without_a_gold_has_a_control_too() -> None:
    scores = graded(["aa", "RAISE"], prompt=ENV.prompt("q", answer="no gold"))
    assert [score.status for score in scores] == [Status.PARTIAL, Status.LIMIT]


def test_a_verdict_is_kept_for_its_group_and_no_other(tmp_path: Path) -> None:
    with Grader(ENV, workers=0, cache=tmp_path / "cache") as grader:
        for texts, hits, rewards in [
            (["aa", "a"], 0, [1.0, 0.0]),
            (["aa", "a"], 2, [1.0, 0.0]),
            (["aa", "aaa"], 2, [0.0, 1.0]),
            (["a", "aa"], 2, [0.0, 1.0]),
            (["aaaaa", "LOST"], 2, [1.0, None]),
            (["aaaaa", "LOST"], 2, [1.0, None]),  # a group with an error is graded again
        ]:
            assert [one.result().reward for one in grader.submit_group(PROMPT, texts)] == rewards
            assert grader.stats.cache_hits == hits


def gate() -> Any:
    env = Gate(LengthGate(), ENV)
    return env, env.prompt("q", gate={"answer": "1"}, longest={"answer": "1"})


def test_a_composition_passes_the_group_on_to_the_part_that_compares() -> None:
    env, prompt = gate()
    assert grades_groups(env) and not grades_groups(AllOf([LengthGate()]))
    scores = graded(["ok aa", "much longer but shut out", "ok a"], env, prompt)
    # The one that was shut out stands in the comparison as an empty completion: it has lost against both.
    assert [score.reward for score in scores] == [1.0, 0.0, 0.5]
    assert [score.status for score in scores] == [Status.PARTIAL, Status.INCORRECT, Status.PARTIAL]
    assert dict(scores[0].components) == {"gate": 1.0, "longest": 1.0} and dict(scores[1].components) == {"gate": 0.0}
    assert {score.grader for score in scores} == {env.grader}


def test_a_composition_of_compositions_does_too() -> None:
    inner, _ = gate()
    env = WeightedSum({"gate": 1.0, "inner": 0.5}, {"gate": LengthGate(), "inner": inner})
    prompt = env.prompt("q", gate={"answer": "1"}, inner={"gate": {"answer": "1"}, "longest": {"answer": "1"}})
    assert [score.reward for score in graded(["ok aa", "no", "ok a"], env, prompt)] == [1.5, 0.0, 1.25]


def test_an_optional_part_without_a_verdict_leaves_the_rest_standing() -> None:
    texts = ["abc", "LOST", "ok"]
    for optional, rewards in [((), [0.25, None, 1.0]), (("longest",), [0.25, 0.0, 1.0])]:
        env = WeightedSum({"gate": 1.0, "longest": 0.5}, {"gate": LengthGate(), "longest": ENV}, optional=optional)
        prompt = env.prompt("q", gate={"answer": "1"}, longest={"answer": "1"})
        assert [score.reward for score in env.score_group(prompt, texts)] == rewards


def test_a_composition_of_ordinary_parts_scores_a_group_as_each_alone() -> None:
    env = Gate(LengthGate(), ExactEnvironment())
    prompt = env.prompt("q", gate={"answer": "1"}, exact={"answer": "1"})
    group = [Completion(text="ok"), "answer: 1", "ok answer"]
    assert [s.reward for s in env.score_group(prompt, group)] == [env.score(prompt, one).reward for one in group]
