"""`verigym.reward_function`: an environment as the reward function of another trainer."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import pytest
from sample_envs import ExactEnvironment, PoliteEnvironment

import verigym
from verigym.envs import AllOf, BaseEnvironment, Completion, EnvironmentFailure, Options, Prompt, Reference, Score, UsageError
from verigym.envs.grading.reward_function import RewardFunction

RIGHT, WRONG = "answer: 4", "answer: 5"


def made(environment: Any = None, **settings: Any) -> RewardFunction:
    return verigym.reward_function(environment or ExactEnvironment(), workers=0, **settings)


def test_it_has_the_name_that_trainers_log() -> None:
    assert made().__name__ == "exact"
    assert verigym.reward_function("math", workers=0).__name__ == "math"


def test_the_reference_comes_from_the_columns_of_its_name_or_of_another() -> None:
    answers = ["4", "4"]
    with made() as reward:
        assert reward(prompts=["q", "q"], completions=[RIGHT, WRONG], answer=answers, other=[1, 2]) == [1.0, 0.0]
    with made(columns={"answer": "gold"}) as reward:
        assert reward(prompts=["q", "q"], completions=[RIGHT, WRONG], gold=answers, answer=["5", "5"]) == [1.0, 0.0]


def test_a_part_of_a_composition_has_columns() -> None:
    both = AllOf([ExactEnvironment(), PoliteEnvironment()])
    for columns, given in (({}, "answer"), ({"exact.answer": "gold"}, "gold")):
        with made(both, columns=columns) as reward:
            rewards = reward(["q", "q"], ["please answer: 4", "please answer: 5"], **{given: ["4", "4"]})
            expected = [both.score(both.prompt("q", exact={"answer": "4"}), f"please answer: {n}").reward for n in (4, 5)]
            assert rewards == expected


class Units(Reference):
    answer: str
    unit: str = "m"


class UnitEnvironment(BaseEnvironment[Units, Options]):
    name, version, reference_type = "unit", "1", Units

    def judge(self, prompt: Prompt, reference: Units, completion: Completion) -> Score:
        right = completion.text == f"{reference.answer} {reference.unit}"
        return Score.correct(answer=completion.text) if right else Score.incorrect(answer=completion.text)


def test_optional_fields_are_read_where_a_row_has_a_value() -> None:
    with made(UnitEnvironment()) as reward:
        assert reward(["q"], ["4 m"], answer=["4"]) == [1.0]
        assert reward(["q"] * 2, ["4 m", "4 s"], answer=["4", "4"], unit=[None, "s"]) == [1.0, 1.0]
    with made(UnitEnvironment(), columns={"unit": "measure"}) as reward, pytest.raises(UsageError, match="no column 'measure'"):
        reward(["q"], ["4 m"], answer=["4"])


def test_a_row_that_cannot_be_used_has_no_reward_and_is_said() -> None:
    with verigym.reward_function("math", workers=0) as reward:
        with pytest.warns(
            UserWarning, match=r"math: no reward for row 1: its 'answer' is None \(prompt '1\+1\?'\) \(and 1 more of 3 rows\)"
        ):
            assert reward(["1+1?"] * 3, [r"\boxed{2}"] * 3, answer=[None, "2", ""]) == [None, 1.0, None]
        with pytest.warns(UserWarning, match=r"no reward for row 2: reference of 'math': .*'answer'.*[^)]$"):
            assert reward(["1+1?"] * 2, [r"\boxed{2}"] * 2, answer=["2", ""]) == [1.0, None]


def test_a_completion_that_cannot_be_read_costs_its_own_row_only() -> None:
    """A trainer that parses what the model wrote into messages may be left with one that has no content."""
    chats = [[{"role": "assistant", "content": content}] for content in (RIGHT, None)]
    with made() as reward, pytest.warns(UserWarning, match="no reward for row 2: message 0 of the completion: no content"):
        assert reward(["q"] * 2, chats, answer=["4", "4"]) == [1.0, None]
    with made() as reward, pytest.raises(TypeError, match="a completion is a str, a Completion or a list of messages, not int"):
        reward(["q"], [4], answer=["4"])  # type: ignore[list-item]


def test_tokens_reach_an_environment_that_counts_them() -> None:
    length = verigym.load("length", unit="tokens", target=4)
    tokens = [[1] * count for count in (2, 4, 6)]
    with made(length) as reward:
        rewards = reward(["q"] * 3, ["text"] * 3, completion_ids=tokens)
        chats = reward(["q"] * 3, [[{"role": "assistant", "content": "text"}]] * 3, completion_ids=tokens)
        expected = [length.score(length.prompt("q"), Completion(text="text", token_ids=tuple(ids))).reward for ids in tokens]
        assert rewards == chats == expected and len(set(expected)) > 1
        with pytest.raises(ValueError, match="unequal lengths: prompts 1, completions 1, completion_ids 2"):
            reward(["q"], ["text"], completion_ids=[[1], [1]])


def test_two_functions_of_one_environment_have_names_of_their_own() -> None:
    assert made(name="exact, strictly").__name__ == "exact, strictly"


def test_tests_of_several_types_come_from_one_table() -> None:
    """The `datasets` library gives every test the fields of all, null where it had none; a column of JSON texts also works."""
    tests = [
        {"type": "stdio", "stdin": "2", "stdout": "4", "function": None, "args": None, "expected": None, "code": None},
        {"type": "call", "function": "f", "args": [2], "expected": None, "stdin": None, "stdout": None, "code": None},
    ]
    own = [{name: value for name, value in test.items() if value is not None} for test in tests]
    own[1]["expected"] = None
    code = verigym.load("code")
    expected = code.prompt("q", tests=own).key
    limits = {"wall_s": None, "cpu_s": None}
    assert code.prompt("q", tests=tests, limits=limits).key == expected
    assert code.prompt("q", tests=json.dumps(own)).key == expected
    with pytest.raises(UsageError, match="tests"):
        code.prompt("q", tests="not JSON")
    with pytest.raises(UsageError, match="stdout"):
        code.prompt("q", tests=[{"type": "stdio", "stdout": None}])


def test_nulls_that_may_be_arguments_cost_the_row_its_reward() -> None:
    """A table gives every test's kwargs the keys of all: `f(x=3)` would be called as `f(x=3, y=None)`."""
    tests = [{"type": "call", "function": "f", "kwargs": {"x": 3, "y": None}, "expected": 6}]
    meant = json.dumps(tests)
    program = "```python\ndef f(x, y=1):\n    return 2 * x\n```"
    with made("code") as reward:
        with pytest.warns(UserWarning, match=r"row 1: its reference holds nulls.*JSON texts.*\(prompt 'Double x'\)"):
            assert reward(["Double x"], [program], tests=[tests]) == [None]
        assert reward(["Double x"], [program], tests=[meant]) == [1.0]
        returned = [{"type": "call", "function": "f", "args": [3], "expected": None, "stdin": None}]
        assert reward(["Do nothing"], ["```python\ndef f(x): pass\n```"], tests=[returned]) == [1.0]


def test_an_optional_field_can_be_left_unread() -> None:
    with made(UnitEnvironment(), columns={"unit": None}) as reward:
        assert reward(["q"], ["4 m"], answer=["4"], unit=["s"]) == [1.0]
    with pytest.raises(UsageError, match="'answer' is None, but 'unit' cannot judge without it"):
        made(UnitEnvironment(), columns={"answer": None})


class BrokenEnvironment(BaseEnvironment[Units, Options]):
    name, version, reference_type = "broken", "1", Units

    def judge(self, prompt: Prompt, reference: Units, completion: Completion) -> Score:
        if completion.text == "raise":
            raise KeyError("mine")
        return Score.correct()

    def gold(self, prompt: Prompt) -> str:
        return "fine"


def test_a_reward_that_never_works_ends_the_run() -> None:
    class Failing(UnitEnvironment):
        def judge(self, prompt: Prompt, reference: Units, completion: Completion) -> Score:
            raise EnvironmentFailure("unavailable", "the endpoint is away")

    with made(Failing(), stop_after=3, retries=0) as reward:
        assert reward(["q"] * 2, ["a", "b"], answer=["4"] * 2) == [None] * 2
        with pytest.raises(
            UsageError, match="the last 3 completions have got no reward: the endpoint is away. Training on would"
        ):
            reward(["q"], ["c"], answer=["4"])
    with made(Failing(), stop_after=None, retries=0) as reward:
        assert reward(["q"] * 90, ["a"] * 90, answer=["4"] * 90) == [None] * 90
    with (
        made(stop_after=3) as reward,
        pytest.warns(UserWarning),
        pytest.raises(UsageError, match="row 1: its 'answer' is None"),
    ):
        reward(["q"] * 3, [RIGHT] * 3, answer=[None] * 3)
    with made(stop_after=3) as reward:
        assert reward(["q"], [RIGHT], answer=["4"]) == [1.0]
        with pytest.warns(UserWarning, match="no reward for row 1"):
            assert reward(["q"] * 2, [RIGHT] * 2, answer=[None] * 2) == [None] * 2
        assert reward(["q"], [RIGHT], answer=["4"]) == [1.0], "it works again"
        assert repr(reward.health) == "<exact: 2 rewarded, 0 unscored, 2 unusable>"
        with pytest.warns(UserWarning), pytest.raises(UsageError, match="the last 3 completions have got no reward"):
            reward(["q"] * 3, [RIGHT] * 3, answer=[None] * 3)


def test_a_prompt_that_asks_for_no_box_is_told_once() -> None:
    with made("math") as reward:
        with pytest.warns(
            UserWarning, match=r"math: none of the first 64 completions holds an answer that can be read \(no boxed"
        ):
            assert reward(["1+1?"] * 70, ["The answer is 2."] * 70, answer=["2"] * 70) == [0.0] * 70
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reward(["1+1?"] * 70, ["The answer is 2."] * 70, answer=["2"] * 70)
    with made("math") as reward, warnings.catch_warnings():
        warnings.simplefilter("error")
        reward(["1+1?"] * 70, [r"\boxed{3}", *["The answer is 2."] * 69], answer=["2"] * 70)


def test_the_parts_of_a_composition_are_logged() -> None:
    logged: dict[str, float] = {}
    both = verigym.envs.WeightedSum({"exact": 1.0, "polite": 0.2}, {"exact": ExactEnvironment(), "polite": PoliteEnvironment()})
    with made(both, name="both") as reward:
        reward(["q"] * 2, [RIGHT, f"{WRONG} please"], answer=["4", "4"], log_metric=logged.__setitem__)
    assert logged == {"both/no_reward": 0.0, "both/exact": 0.5, "both/polite": 0.5}


def test_a_column_that_happens_to_have_the_name_of_a_field_is_told() -> None:
    tests = json.dumps([{"type": "stdio", "stdout": "4"}])
    with (
        made("code") as reward,
        pytest.warns(UserWarning, match="if column 'language' is about something else: columns=.*None"),
    ):
        assert reward(["q"], ["print(4)"], tests=[tests], language=["English"]) == [None]


def test_exceptions_of_a_broken_judge_are_no_rewards() -> None:
    logged: dict[str, float] = {}
    with made(BrokenEnvironment()) as reward:
        few = reward(["q"] * 40, ["raise", *["fine"] * 39], answer=["4"] * 40, log_metric=logged.__setitem__)
        assert few == [0.0, *[1.0] * 39] and logged == {"broken/no_reward": 0.0}
        assert "40 rewarded, 0 unscored, 0 unusable, judge raised on 1" in repr(reward.health)
        with pytest.warns(UserWarning, match="broken: its judge raises on .* of the last .* completions.*KeyError"):
            many = reward(["q"] * 40, ["raise"] * 40, answer=["4"] * 40, log_metric=logged.__setitem__)
        assert many[-1] is None and logged["broken/no_reward"] > 0.5


def test_tokens_of_a_completion_with_replies_of_tools_are_not_its_own() -> None:
    length = verigym.load("length", unit="tokens", target=4)
    call = {"role": "assistant", "content": "I ask.", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    read = [call, {"role": "tool", "name": "f", "content": "9"}, {"role": "assistant", "content": "nine"}]
    with made(length) as reward:
        assert reward(["q"], [[call]], completion_ids=[[1, 2, 3, 4]]) == [1.0]
        assert reward(["q"], [read], completion_ids=[[1, 2, 3, 4]]) == [None]


@pytest.mark.slow
def test_a_script_from_standard_input_is_refused_in_one_sentence() -> None:
    script = (
        "import verigym\nif __name__ == '__main__':\n"
        "    print(verigym.reward_function('math', workers=1)(['q'], ['4'], answer=['4']))\n"
    )
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "this one was read from standard input; save it to a file" in done.stderr, done.stderr


def test_columns_may_be_arrays() -> None:
    """Trainers hand out arrays of numpy and tensors, which are no sequences."""

    class Array:
        def tolist(self) -> list[str]:
            return ["4", "5"]

    with made() as reward:
        assert reward(["q"] * 2, [RIGHT] * 2, answer=Array()) == [1.0, 0.0]


def test_values_may_be_scalars_of_numpy() -> None:
    class Scalar:
        def tolist(self) -> str:
            return "4"

    with made() as reward:
        assert reward(["q"], [RIGHT], answer=[Scalar()]) == [1.0]


@pytest.mark.parametrize(("prompts", "completions", "answers"), [(2, 1, 2), (1, 2, 1), (2, 2, 1), (1, 1, 2)])
def test_lists_of_unequal_lengths_are_refused(prompts: int, completions: int, answers: int) -> None:
    said = f"unequal lengths: prompts {prompts}, completions {completions}, answer {answers}"
    with made() as reward, pytest.raises(ValueError, match=said):
        reward(["q"] * prompts, [RIGHT] * completions, answer=["4"] * answers)


def test_one_value_is_no_column() -> None:
    with made() as reward, pytest.raises(UsageError, match="'exact' got str '4' as column 'answer'; expected a list"):
        reward(["q"], [RIGHT], answer="4")


@pytest.mark.parametrize("columns", [{}, {"gold": ["4"]}])
def test_a_missing_column_is_an_error_and_no_reward(columns: dict[str, Any]) -> None:
    said = r"'exact' got no column 'answer' for the field 'answer' of its reference.*columns=\{\"answer\": \"COLUMN\"\}"
    with made() as reward, pytest.raises(UsageError, match=said):
        reward(["q"], [RIGHT], **columns)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": {"anwser": "gold"}}, "has no field 'anwser'; did you mean 'answer'"),
        (
            {"environment": "math", "extract": "all"},
            r"'extract' is an option of the environment: .*load\('math', extract=...\)",
        ),
        ({"timeout": 3}, "reward_function: no setting is called 'timeout'; did you mean 'timeout_s'"),
        ({"columns": ["answer"]}, "columns=\\['answer'\\]: expected a field of the reference and its column"),
        ({"columns": {"answer": ["gold"]}}, "'answer' is to come from \\['gold'\\]; expected the name of one column"),
        ({"timeout_s": "3"}, "timeout_s='3': expected a number"),
        ({"name": " "}, "name=' ': expected a text that is not empty"),
        ({"name": 5}, "name=5: expected a text"),
        ({"stop_after": "x"}, "stop_after='x': expected a whole number above 0"),
        ({"environment": "mth"}, "no environment is called 'mth'; did you mean 'math'"),
    ],
)
def test_mistakes_are_said_when_it_is_made(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(**settings)
