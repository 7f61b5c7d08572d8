import json
import subprocess
import sys
from itertools import islice

import pytest
from pydantic import ValidationError
from sample_envs import ExactEnvironment, ForeignEnvironment, NanEnvironment, RaisingEnvironment

from verigym.envs import (
    BaseEnvironment,
    Completion,
    Environment,
    EnvironmentFailure,
    Grader,
    Message,
    Reference,
    Score,
    Status,
    TaskSource,
    UsageError,
    WeightedSum,
    check_env,
    load,
    reward_function,
)
from verigym.envs.contract.errors import did_you_mean


def test_score_is_stamped():
    env = ExactEnvironment()
    score = env.score(env.prompt("q", answer="4"), "answer: 4")
    assert score.reward == 1.0
    assert score.grader == env.grader
    assert 0 < score.seconds < 60


def test_grader_id_holds_name_version_and_options():
    one, other = ExactEnvironment(), ExactEnvironment(strip=False)
    assert one.grader.startswith("exact@1+") and len(one.grader) == len("exact@1+") + 8
    assert one.grader == ExactEnvironment(strip=True).grader != other.grader
    assert repr(one) == f"<{one.grader}>"


def test_options_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        ExactEnvironment().options.strip = False


def test_string_and_completion_score_alike():
    env = ExactEnvironment()
    prompt = env.prompt([Message(role="system", content="s"), Message(role="user", content="u")], answer="4")
    one, other = env.score(prompt, "answer: 4"), env.score(prompt, Completion(text="answer: 4"))
    assert one.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})


def test_reference_mistakes_are_named():
    env = ExactEnvironment()
    with pytest.raises(UsageError, match="reference of 'exact': field 'answer' is missing"):
        env.prompt("q")
    with pytest.raises(UsageError, match="unknown field 'anser'; did you mean 'answer'"):
        env.prompt("q", answer="4", anser="5")
    with pytest.raises(UsageError, match="field 'answer': .*got 4"):
        env.prompt("q", answer=4)


def test_a_prompt_of_another_environment_is_refused():
    prompt = ForeignEnvironment().prompt("q", answer="4")
    other = prompt.model_copy(update={"references": {"other": prompt.references["exact"]}})
    with pytest.raises(
        UsageError, match=r"'exact' was given a prompt made for 'foreign' \(it holds references for \['other'\]"
    ):
        ExactEnvironment().score(other, "x")


def test_prompts_survive_json():
    env = ExactEnvironment()
    prompt = env.prompt("q\ud800", answer="4", metadata={"row": 3})
    back = env.load_prompt(json.loads(json.dumps(prompt.model_dump(mode="json"))))
    assert back == prompt and back.key == prompt.key and back.metadata == {"row": 3}


def test_rewards_out_of_range_are_our_failure():
    class Generous(ExactEnvironment):
        def judge(self, prompt, reference, completion):
            return Score.correct(reward=2.0)

    score = Generous().score(Generous().prompt("q", answer="4"), "x")
    assert score.error.kind == "internal" and "outside its range 0.0..1.0" in score.reason


@pytest.mark.parametrize("env", [RaisingEnvironment(), NanEnvironment()], ids=lambda e: e.name)
def test_a_broken_environment_gives_no_reward(env):
    score = env.score(env.prompt("q", answer="4"), "answer: 4")
    assert score.status is Status.ERROR and score.reward is None and score.grader == env.grader


class Count(ExactEnvironment):
    name = "count"

    def prompt_at(self, split, seed, index):
        return self.prompt(f"{split} {seed} {index}", answer=str(index))


def test_task_sources():
    env = Count()
    assert isinstance(env, TaskSource) and not isinstance(ExactEnvironment(), TaskSource)
    assert [p.text for p in islice(env.prompts("test", 7), 2)] == ["test 7 0", "test 7 1"]
    with pytest.raises(UsageError, match="generates no tasks of its own"):
        next(ExactEnvironment().prompts())


def test_defaults():
    class Plain(BaseEnvironment):
        name, version, reference_type = "plain", "1", Reference

        def judge(self, prompt, reference, completion):
            return Score.correct()

    env = Plain()
    assert isinstance(env, Environment) and isinstance(ForeignEnvironment(), Environment)
    assert env.gold(env.prompt("q")) is None
    assert list(env.examples()) == []
    env.check()


def test_failures_explain_themselves():
    failure = EnvironmentFailure("unavailable", "no Lean", retryable=True)
    assert str(failure) == "unavailable: no Lean"
    assert failure.score() == Score.failed("unavailable", "no Lean", retryable=True)
    assert did_you_mean("mth", ["math", "code"]) == "; did you mean 'math'?"
    assert did_you_mean("zzz", ["math", "code"]) == "; known: code, math"
    assert did_you_mean("zzz", []) == ""


def test_import_pulls_in_no_heavy_library():
    heavy = ("torch", "sympy", "numpy", "datasets")
    code = f"import sys, verigym.envs, verigym.envs.grading; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("completion", [None, 5, b"answer: 4", {"role": "assistant", "content": "4"}])
def test_a_caller_that_passes_no_completion_is_told_and_nobody_is_blamed(completion):
    env = ExactEnvironment()
    with pytest.raises(TypeError, match="a completion is a str, a Completion or a list of messages"):
        env.score(env.prompt("q", answer="4"), completion)


def test_a_caller_that_passes_no_prompt_is_told():
    with pytest.raises(TypeError, match="scores prompts made with env.prompt"):
        ExactEnvironment().score("q", "answer: 4")


def test_metadata_that_json_cannot_carry_is_refused():
    with pytest.raises(ValidationError, match="nan or inf"):
        ExactEnvironment().prompt("q", answer="4", metadata={"difficulty": float("nan")})


@pytest.mark.parametrize(
    "take",
    [check_env, Grader, lambda given: Grader([given]), lambda given: Grader({"exact": given}), reward_function],
    ids=["check_env", "Grader", "list", "mapping", "reward_function"],
)
def test_what_is_no_environment_is_refused_with_what_to_give(take):
    with pytest.raises(UsageError, match=r"expected an environment; got the class ExactEnvironment: give ExactEnvironment\(\)"):
        take(ExactEnvironment)
    with pytest.raises(UsageError, match="5 is not an environment; make one with verigym.load"):
        take(5)
    if take is not reward_function:  # which takes a name
        with pytest.raises(UsageError, match=r"expected an environment; got the name 'math': give verigym.load\('math'\)"):
            take("math")


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(UsageError, match="expected the name of an environment as a text, such as 'math'; got 3"):
        load(3)


def test_a_part_with_a_colon_in_its_name_is_told_how_to_be_given():
    both = WeightedSum({"sample_envs:ExactEnvironment": 1.0, "length": 0.1})
    with pytest.raises(UsageError, match=r"as \*\*\{'sample_envs:ExactEnvironment': \{'field': value\}\}"):
        both.prompt("q", exact={"answer": "4"})
    assert both.prompt("q", **{"sample_envs:ExactEnvironment": {"answer": "4"}}).references
