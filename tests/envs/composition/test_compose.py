import json

import pytest
from held import Held
from sample_envs import (
    ContainsEnvironment,
    ExactEnvironment,
    ForeignEnvironment,
    PoliteEnvironment,
    RaisingEnvironment,
    ShortEnvironment,
)

from verigym.envs import Environment, Score, Status, UsageError, registry
from verigym.envs.composition.operators import AllOf, AnyOf, Gate, WeightedSum
from verigym.envs.conformance import check_env
from verigym.envs.extraction.gold import cut
from verigym.envs.grading import Grader

CONTAINS, POLITE, SHORT = ContainsEnvironment(), PoliteEnvironment(), ShortEnvironment()


def weighted(weights=None, **options):
    return WeightedSum(weights or {"contains": 1.0, "polite": 0.25}, {"contains": CONTAINS, "polite": POLITE}, **options)


def task(env, answer="four"):
    return env.prompt("2+2?", contains={"answer": answer})


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {"contains": ContainsEnvironment, "polite": PoliteEnvironment})


def test_parts_may_be_names(registered):
    for env in (WeightedSum({"contains": 1.0, "polite": 0.25}), Gate("polite", "contains"), AllOf(["polite", "contains"])):
        assert isinstance(env, Environment)
        assert env.score(task(env), "four please").status is Status.CORRECT
    with pytest.raises(UsageError, match="no environment is called 'contain'; did you mean 'contains'"):
        AnyOf(["contain"])


@pytest.mark.parametrize(
    ("text", "reward", "status", "components"),
    [
        ("four please", 1.25, Status.CORRECT, {"contains": 1.0, "polite": 1.0}),
        ("four", 1.0, Status.CORRECT, {"contains": 1.0, "polite": 0.0}),
        ("f please", 0.75, Status.PARTIAL, {"contains": 0.5, "polite": 1.0}),
        ("please", 0.25, Status.INCORRECT, {"contains": 0.0, "polite": 1.0}),
        ("", 0.0, Status.NO_ANSWER, {"contains": 0.0, "polite": 0.0}),
    ],
)
def test_weighted_sum(text, reward, status, components):
    env = weighted()
    score = env.score(task(env), text)
    assert (score.reward, score.status, dict(score.components)) == (reward, status, components)
    assert score.grader == env.grader
    assert env.reward_range == (0.0, 1.25)


def test_weighted_sum_takes_answer_from_the_primary_part():
    env = weighted({"polite": 0.25, "contains": 1.0}, primary="contains")
    assert env.score(task(env), "four").answer == "four"
    assert env.name == "polite+contains"
    assert weighted(name="both").prompt("q", contains={"answer": "x"}).environment == "both"


def test_ranges_and_negative_weights():
    env = WeightedSum({"contains": 2.0, "short": 1.0, "polite": -0.5}, {"contains": CONTAINS, "short": SHORT, "polite": POLITE})
    assert env.reward_range == (-1.5, 2.0)
    assert env.score(task(env), "four").reward == 2.0 - 0.04
    assert env.score(task(env), "four please").reward == pytest.approx(2.0 - 0.11 - 0.5)
    assert env.expected_verdicts.empty == "free" and env.expected_verdicts.gold == "free"


@pytest.mark.parametrize("weights", [{"contains": 1.0, "polite": 1.0}, {"contains": 0.5, "polite": -0.6}])
def test_shaping_may_not_dominate_unless_asked(weights):
    with pytest.raises(UsageError, match="a wrong answer could outrank a right one.*allow_shaping_to_dominate"):
        weighted(weights)
    assert weighted(weights, allow_shaping_to_dominate=True).reward_range[1] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weighted({"contains": float("nan")}), "the weight of 'contains' is nan"),
        (lambda: weighted({"contains": -1.0}), "no weight for \\['polite'\\]"),
        (lambda: WeightedSum({"c": -1.0}, {"c": CONTAINS}), "primary part 'c' must be positive"),
        (lambda: weighted(primary="polit"), "has no part 'polit'; did you mean 'polite'"),
        (lambda: weighted(optional=["contains"]), "primary part 'contains' cannot be optional"),
        (lambda: WeightedSum({"a/b": 1.0}, {"a/b": CONTAINS}), "part name 'a/b'"),
        (lambda: Gate(POLITE, POLITE), "different names"),
        (lambda: Gate({"a": POLITE, "b": POLITE}, CONTAINS), "expected one condition"),
        (lambda: AllOf([POLITE, POLITE]), "two parts are called 'polite'"),
        (lambda: AllOf([]), "no parts"),
        (lambda: WeightedSum({}), "no parts"),
        (lambda: AnyOf([3]), "expected a registry name or an environment"),
        (lambda: AnyOf(3), "the parts are 3; expected a list"),
        (lambda: AllOf("format"), "the parts are 'format'; expected a list"),
        (lambda: AllOf("format", "math"), r"give the parts as one list, \['format', 'math'\]"),
        (lambda: WeightedSum(["math", "format"]), "the weights are .*; expected a mapping"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_an_error_in_a_part_makes_the_whole_an_error_unless_it_is_optional():
    env = weighted()
    score = env.score(task(env), "four BACKEND")
    assert score.reward is None and score.error.kind == "unavailable" and score.error.retryable
    assert score.reason == "part 'polite': no etiquette server"
    env = weighted(optional=["polite"])
    score = env.score(task(env), "four BACKEND")
    assert (score.reward, score.status) == (1.0, Status.CORRECT)
    assert dict(score.components) == {"contains": 1.0, "polite": None}
    assert "optional part 'polite' gave no score" in score.reason
    for env in (AllOf([CONTAINS, POLITE], optional=["polite"]), AnyOf([CONTAINS, POLITE], optional=["polite"])):
        assert env.score(task(env), "f BACKEND").reward == 0.5
    assert Gate(POLITE, CONTAINS).score(task(Gate(POLITE, CONTAINS)), "four BACKEND").status is Status.ERROR


def test_an_optional_part_in_error_keeps_the_reward_in_range():
    env = WeightedSum({"contains": 2.0, "short": 1.0}, {"contains": CONTAINS, "short": SHORT}, optional=["short"])
    assert env.reward_range == (-1.0, 2.0)


def test_broken_and_foreign_parts():
    env = WeightedSum({"contains": 1.0, "raising": 0.1}, {"contains": CONTAINS, "raising": RaisingEnvironment()})
    score = env.score(env.prompt("q", contains={"answer": "4"}, raising={"answer": "4"}), "4")
    assert score.status is Status.ERROR and "part 'raising'" in score.reason
    env = AllOf([ForeignEnvironment("none"), CONTAINS])
    score = env.score(env.prompt("q", foreign={"answer": "4"}, contains={"answer": "4"}), "4")
    assert score.error.kind == "internal"


def test_gate():
    env = Gate(POLITE, CONTAINS)
    prompt = task(env)
    assert env.name == "polite>contains"
    right = env.score(prompt, "four please")
    assert (right.reward, right.status, right.answer) == (1.0, Status.CORRECT, "four")
    shut = env.score(prompt, "four")
    assert (shut.reward, shut.status, dict(shut.components)) == (0.0, Status.INCORRECT, {"polite": 0.0})
    assert shut.reason == "'polite' does not hold: impolite"
    assert env.score(prompt, "").status is Status.NO_ANSWER
    assert env.score(prompt, "f please").reward == 0.5


def test_all_of_takes_the_least():
    env = AllOf([POLITE, CONTAINS])
    prompt = task(env)
    assert env.name == "all(polite,contains)"
    assert env.score(prompt, "four please").status is Status.CORRECT
    half = env.score(prompt, "f please")
    assert (half.reward, half.status) == (0.5, Status.PARTIAL)
    wrong = env.score(prompt, "four")
    assert (wrong.reward, wrong.status, dict(wrong.components)) == (0.0, Status.INCORRECT, {"polite": 0.0})


def test_any_of_takes_the_greatest_and_stops_there():
    env = AnyOf({"lax": ContainsEnvironment(), "polite": POLITE})
    prompt = env.prompt("q", lax={"answer": "four"})
    score = env.score(prompt, "four BACKEND")
    assert (score.reward, score.answer, dict(score.components)) == (1.0, "four", {"lax": 1.0})
    assert env.score(prompt, "f").reward == 0.5
    assert env.score(prompt, "x").status is Status.INCORRECT


def test_rewards_are_brought_to_one_scale():
    env = AnyOf([SHORT])
    assert env.score(env.prompt("q"), "x" * 25).reward == 0.75
    assert AllOf([SHORT]).score(AllOf([SHORT]).prompt("q"), "x" * 500).reward == 0.0


class Marks(ContainsEnvironment):
    """As many marks as there are stars, from 1 to 5."""

    name, reward_range = "marks", (1.0, 5.0)

    def judge(self, prompt, reference, completion):
        return Score.partial(1.0 + completion.text.count("*"))


class Constant(Marks):
    """The same for all."""

    name, reward_range = "constant", (2.0, 2.0)

    def judge(self, prompt, reference, completion):
        return Score.partial(2.0)


@pytest.mark.parametrize(("text", "level"), [("", 0.0), ("*", 0.25), ("***", 0.75), ("****", 1.0)])
def test_a_range_that_is_not_0_to_1_is_brought_to_it(text, level):
    for env in (AllOf([Marks()]), AnyOf([Marks()])):
        assert env.score(env.prompt("q", marks={"answer": "x"}), text).reward == level


def test_a_part_with_one_reward_alone_is_at_its_maximum():
    for env in (AllOf([Constant(), Marks()]), AllOf([Marks(), Constant()])):
        assert env.score(env.prompt("q", marks={"answer": "x"}, constant={"answer": "x"}), "**").reward == 0.5
    assert AnyOf([Constant()]).score(AnyOf([Constant()]).prompt("q", constant={"answer": "x"}), "x").reward == 1.0


def nested():
    inner = Gate({"manners": POLITE}, CONTAINS, name="answered")
    return WeightedSum({"answered": 1.0, "short": 0.5}, {"answered": inner, "short": SHORT}, name="all in one")


def test_compositions_nest():
    env = nested()
    prompt = env.prompt("q", answered={"contains": {"answer": "four"}})
    assert set(prompt.references) == {"answered/manners", "answered/contains", "short"}
    score = env.score(prompt, "four please")
    assert score.reward == 1.0 - 0.11 * 0.5
    assert dict(score.components) == {
        "answered": 1.0, "answered/manners": 1.0, "answered/contains": 1.0, "short": -0.11,
    }  # fmt: skip
    back = env.load_prompt(json.loads(json.dumps(prompt.model_dump(mode="json"))))
    assert back == prompt and back.key == prompt.key


def test_two_parts_of_one_kind_keep_their_own_references():
    env = AllOf({"first": ContainsEnvironment(), "second": ContainsEnvironment()})
    prompt = env.prompt("q", first={"answer": "a"}, second={"answer": "b"})
    assert env.score(prompt, "ab").status is Status.CORRECT
    assert env.score(prompt, "xb").reward == 0.0
    back = env.load_prompt(json.loads(json.dumps(prompt.model_dump(mode="json"))))
    assert back == prompt


def test_prompt_mistakes_are_named():
    env = weighted()
    with pytest.raises(UsageError, match="has no part 'contain'; did you mean 'contains'"):
        env.prompt("q", contain={"answer": "4"})
    nested = Gate(POLITE, weighted(name="sum"))
    with pytest.raises(UsageError, match=r"its part 'sum' has: write \*\*\{'sum': \{'contains': \{'field': value\}\}\}"):
        nested.prompt("q", contains={"answer": "4"})
    assert "contains" in str(nested.prompt("q", **{"sum": {"contains": {"answer": "4"}}}).references)
    with pytest.raises(UsageError, match="contains='4': expected the part's reference as a mapping"):
        env.prompt("q", contains="4")
    with pytest.raises(UsageError, match="reference of 'contains': field 'answer' is missing"):
        env.prompt("q")
    with pytest.raises(UsageError, match="'contains\\+polite' was given a prompt made for 'contains'"):
        env.score(CONTAINS.prompt("q", answer="4"), "x")
    data = task(env).model_dump(mode="json")
    with pytest.raises(UsageError, match=r"references for \['more'\], which are no parts"):
        env.load_prompt({**data, "key": "", "references": {**data["references"], "more": {}}})


def test_a_change_in_any_part_changes_the_grader():
    class Newer(ContainsEnvironment):
        version = "2"

    ids = {
        AllOf([CONTAINS, POLITE]).grader,
        AllOf([POLITE, CONTAINS]).grader,
        AllOf([CONTAINS, POLITE], name="all").grader,
        AllOf([Newer(), POLITE]).grader,
        AllOf([ContainsEnvironment(strip=False), POLITE]).grader,
        AllOf([CONTAINS, POLITE], optional=["polite"]).grader,
        AnyOf([CONTAINS, POLITE]).grader,
    }
    assert len(ids) == 7
    assert AllOf([CONTAINS, POLITE]).grader == AllOf([ContainsEnvironment(), PoliteEnvironment()]).grader
    assert weighted().grader != weighted({"contains": 1.0, "polite": 0.5}).grader


def test_gold_is_joined_and_scores_the_maximum_or_is_none():
    env = Gate(POLITE, CONTAINS)
    gold = env.gold(task(env))
    assert gold == "four\nplease"
    assert env.score(task(env), gold).reward == 1.0
    impossible = AllOf([ExactEnvironment(), POLITE])
    assert impossible.gold(impossible.prompt("q", exact={"answer": "4"})) is None


def test_panels_are_derived():
    assert Gate(POLITE, CONTAINS).expected_verdicts.echo == "floor"
    assert Gate(CONTAINS, POLITE).expected_verdicts.gold == "maximum"
    assert AnyOf([CONTAINS, POLITE]).expected_verdicts.echo == "free"
    assert weighted().expected_verdicts.empty == "floor" and weighted().expected_verdicts.hacks == "free"


def test_examples_and_generated_tasks():
    class Counting(ContainsEnvironment):
        name = "counting"

        def prompt_at(self, split, seed, index):
            return self.prompt(f"number {index}?", answer=str(index), metadata={"split": split})

    env = WeightedSum({"counting": 1.0, "polite": 0.2}, {"counting": Counting(), "polite": POLITE})
    prompt = env.prompt_at("train", 0, 7)
    assert prompt.metadata == {"split": "train"}
    assert env.score(prompt, "7 please").reward == env.reward_range[1]
    assert next(env.prompts()).text == "number 0?"
    assert [p.text for p in env.examples()] == ["Say four.", "Say 17.", "Say blue."]
    with pytest.raises(UsageError, match="primary part 'contains' generates no tasks"):
        weighted().prompt_at("train", 0, 0)


def test_a_composition_is_graded_in_workers():
    env = nested()
    prompt = env.prompt("q", answered={"contains": {"answer": "four"}})
    held = Held()
    with Grader(env, workers=1) as grader:
        (score,) = grader.grade([(prompt, "four please")])
    assert score.model_dump(exclude={"seconds"}) == env.score(prompt, "four please").model_dump(exclude={"seconds"})
    assert not held.new_children()


@pytest.mark.slow
def test_compositions_keep_the_contract():
    for env in (Gate(POLITE, CONTAINS), weighted({"contains": 1.0, "polite": 0.25})):
        check_env(env, [task(env, "four"), task(env, "blue")]).raise_if_failed()


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"<think>\boxed{1}</think> so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{a\}b}", r"a\}b"),
        ("<answer>4</answer>", "4"),
        ("work\n#### 42\n", "42"),
        ("The final answer is 7", "7"),
        (r"\boxed{open", r"\boxed{open"),
        ("blue", "blue"),
    ],
)
def test_where_the_answer_of_a_gold_stands(gold, answer):
    found = cut(gold)
    assert found.answer == answer
    assert found.holding(found.answer) == gold
    assert found.marked is (answer != gold)
