"""Steps of parts in a composed score, and the summands of a composed reward."""

import json

import pytest
from pydantic import ValidationError
from sample_envs import ContainsEnvironment, PoliteEnvironment, ShortEnvironment

from verigym.envs import Score, UsageError, load
from verigym.envs.composition.operators import AllOf, AnyOf, Gate, WeightedSum
from verigym.envs.composition.terms import step_parts, terms_of, weighted_sum
from verigym.envs.conformance import check_env
from verigym.envs.contract.schema import StepScore
from verigym.envs.shaping.cosine import CosineLength

CONTAINS, POLITE, SHORT = ContainsEnvironment(), PoliteEnvironment(), ShortEnvironment()
LINES, SENTENCES = load("process", split="lines"), load("process", split="sentences")
TEXT = "1+1=2\n2+2=5\nfour please"


def judged(env, text=TEXT):
    reference = {"contains": {"answer": "four"}} if "contains" in env.parts else {}
    return env.score(env.prompt("2+2?", **reference), text)


def both(**options):
    parts = {"contains": CONTAINS, "lines": LINES, "sentences": SENTENCES}
    return WeightedSum({"contains": 1.0, "lines": 0.25, "sentences": 0.5}, parts, **options)


def shown(score):
    return [(step.part, step.start, step.end, step.reward) for step in score.steps or ()]


def test_a_composition_hands_up_the_steps_of_every_part():
    score = judged(both())
    assert shown(score) == [("lines", 0, 6, 1.0), ("lines", 6, 12, 0.0), ("sentences", 0, 23, 0.0)]
    assert score.components["lines"] == 0.0
    back = Score.model_validate(json.loads(json.dumps(score.model_dump(mode="json"))))
    assert back == score
    outer = Gate({"polite": POLITE}, {"graded": both()})
    score = outer.score(outer.prompt("2+2?", graded={"contains": {"answer": "four"}}), TEXT)
    assert {step.part for step in score.steps} == {"graded/lines", "graded/sentences"}
    check_env(outer, [outer.prompt("2+2?", graded={"contains": {"answer": "four"}})]).raise_if_failed()


def test_gates_and_extremes_hand_up_what_was_judged():
    gate = Gate({"lines": LINES}, CONTAINS)
    assert {step.part for step in judged(gate).steps} == {"lines"}, "a shut gate shows which step shut it"
    assert shown(judged(gate, "1+1=2\nfour")) == [("lines", 0, 6, 1.0)]
    assert judged(Gate(POLITE, {"lines": LINES}), "1+1=2").steps is None, "not judged behind a shut gate"
    assert {step.part for step in judged(AllOf({"contains": CONTAINS, "lines": LINES})).steps} == {"lines"}
    assert judged(AnyOf({"contains": CONTAINS, "lines": LINES})).steps is None, "the first was at its maximum"
    cosine = CosineLength({"lines": LINES}, limit=100)
    assert {step.part for step in cosine.score(cosine.prompt("2+2?"), TEXT).steps} == {"lines"}


@pytest.mark.parametrize(
    ("parts", "components", "message"),
    [
        (("", "a"), {"a": 1.0}, "some steps name a part and others none"),
        (("a",), {}, "steps of the part 'a', whose reward is not in components"),
        (("a",), {"a": None}, "steps of the part 'a', whose reward is not in components"),
    ],
)
def test_steps_that_do_not_fit_their_score_are_refused(parts, components, message):
    steps = tuple(StepScore(start=0, end=1, reward=1.0, part=part) for part in parts)
    with pytest.raises(ValidationError, match=message):
        Score(reward=1.0, status="correct", steps=steps, components=components)


def named(env):
    return [(term.part, term.weight, term.low, term.high, term.steps) for term in terms_of(env)]


def test_the_summands_of_a_reward():
    assert named(LINES) == [("", 1.0, 0.0, 1.0, True)]
    assert named(CONTAINS) == [("", 1.0, 0.0, 1.0, False)]
    assert named(both()) == [("contains", 1.0, 0, 1, False), ("lines", 0.25, 0, 1, True), ("sentences", 0.5, 0, 1, True)]
    inner = Gate(POLITE, {"lines": LINES})
    nested = WeightedSum({"contains": 2.0, "kept": -0.5, "short": 0.0}, {"contains": CONTAINS, "kept": inner, "short": SHORT})
    assert named(nested) == [("contains", 2.0, 0, 1, False), ("kept/lines", -0.5, 0, 1, True)], "no condition, no weight of 0"
    assert named(AllOf([CONTAINS, POLITE])) == [("", 1.0, 0.0, 1.0, False)]
    assert step_parts(nested) == {"kept/lines"}
    assert step_parts(Gate({"lines": LINES}, CONTAINS)) == {"lines"} and step_parts(LINES) == {""}
    for env in (AllOf({"contains": CONTAINS, "lines": LINES}), CosineLength({"lines": LINES}, limit=9)):
        with pytest.raises(UsageError, match="'lines' scores steps, but the reward of .* is no weighted sum"):
            terms_of(WeightedSum({"whole": 1.0}, {"whole": env}))


def test_a_shut_gate_gives_the_end_of_the_range_that_is_worth_least():
    inner = Gate(POLITE, {"short": SHORT})  # from -1 to 0
    for weight in (0.5, -0.5):
        env = WeightedSum({"contains": 1.0, "kept": weight}, {"contains": CONTAINS, "kept": inner})
        terms = {term.part: term for term in terms_of(env)}
        shut, passed = judged(env, "four"), judged(env, "four please")
        assert terms["kept/short"].reward(shut) == -1.0, "the floor of what is behind the gate, as a penalty too"
        assert weighted_sum(terms_of(env), shut) == shut.reward
        assert terms["kept/short"].reward(passed) == -0.11
        behind_gate = Gate({"no": POLITE}, {"sum": env})
        shut = behind_gate.score(behind_gate.prompt("2+2?", sum={"contains": {"answer": "four"}}), "four")
        assert weighted_sum(terms_of(behind_gate), shut) == shut.reward == env.reward_range[0]
        assert terms_of(behind_gate)[1].reward(shut) == (-1.0 if weight > 0 else 0.0), "worth least behind the outer gate"
        assert terms["kept/short"].reward(Score.failed("internal", "down")) is None


@pytest.mark.parametrize("text", [TEXT, "four", "f please", "1+1=3\nplease", "", "four BACKEND"])
def test_the_terms_add_up_to_the_reward(text):
    env = WeightedSum(
        {"contains": 1.0, "lines": 0.25, "manners": 0.25},
        {"contains": CONTAINS, "lines": LINES, "manners": Gate({"good": load("process", split="lines")}, POLITE)},
        optional=["manners"],
    )
    score = judged(env, text)
    assert weighted_sum(terms_of(env), score) == pytest.approx(score.reward)


def test_an_optional_part_that_failed_has_no_reward_and_neither_has_what_is_in_it():
    inner = WeightedSum({"polite": 1.0, "lines": 0.5}, {"polite": POLITE, "lines": LINES})
    env = WeightedSum({"contains": 2.0, "manners": 1.0}, {"contains": CONTAINS, "manners": inner}, optional=["manners"])
    score = judged(env, "1+1=2\nfour BACKEND")
    assert score.components["manners"] is None and score.steps is None
    assert [term.reward(score) for term in terms_of(env)] == [1.0, None, None]
    assert weighted_sum(terms_of(env), score) == score.reward == 2.0


class Undeclared(type(LINES)):
    scores_steps = False


@pytest.mark.slow
def test_the_contract_asks_that_steps_are_declared():
    report = check_env(Undeclared(split="lines"))
    assert "steps are declared" in str(report) and not report.passed
