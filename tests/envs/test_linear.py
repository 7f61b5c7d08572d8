"""Reading JSON that a model wrote: the same verdict and the same words whatever the version of Python."""

import pytest
from needs import require

from verigym.envs.constraints.ifeval_layout import json_format
from verigym.envs.contract.errors import UsageError
from verigym.envs.judge.replies import Garbage, form_of
from verigym.envs.linear import JsonProblem, check_pattern, read_json
from verigym.envs.strict_json import DEPTH

DEEP = DEPTH + 1


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP + "1" + "}" * DEEP,
        '[{"a":' * DEEP + "1" + "}]" * DEEP,
        "[" * 5000,
        "[" * 5000 + "x",
        '["\\"[", ' + "[" * DEEP + "]" * DEEP + "]",
        '["\\\\", ' + "[" * DEEP + "]" * DEEP + "]",
    ],
    ids=range(7),
)
def test_what_is_nested_deeply_is_refused(text: str) -> None:
    with pytest.raises(JsonProblem, match="nested deeper than"):
        read_json(text)
    assert not json_format(text)


@pytest.mark.parametrize(
    "text",
    ["[" * DEPTH + "]" * DEPTH, '"' + "[" * 5000 + '"', '["\\"' + "[" * 5000 + '"]', "[" + "[]," * 5000 + "1]"],
    ids=range(4),
)
def test_brackets_beside_each_other_or_in_strings_are_not_deep(text: str) -> None:
    read_json(text)
    assert json_format(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
        ("[1 ,\n ]", "Expecting value: line 2 column 2 (char 6)"),
        ('{"a": 1,}', "Expecting property name enclosed in double quotes: line 1 column 9 (char 8)"),
        ('{"a": 1, \t}', "Expecting property name enclosed in double quotes: line 1 column 11 (char 10)"),
        ("[,]", "Expecting value: line 1 column 2 (char 1)"),
    ],
)
def test_a_comma_too_many_is_named_in_the_same_words(text: str, words: str) -> None:
    with pytest.raises(JsonProblem) as caught:
        read_json(text)
    assert str(caught.value) == f"is no JSON: {words}"


def test_a_judges_reply_is_bounded_as_well() -> None:
    with pytest.raises(Garbage, match="nested deeper than"):
        form_of("equivalence", (1, 10)).read('{"verdict": "same", "reasoning": ' + "[" * DEEP + "]" * DEEP + "}")


@pytest.mark.parametrize("pattern", ["(?:ab)*+", "(ab)++", "a?+", "(?>a)", "a{2}+"])
def test_a_users_possessive_or_atomic_pattern_is_refused(pattern: str) -> None:
    """It would go to RE2, which has neither: no pattern of a user's reaches `re`, whose reading depends on the version."""
    require("re2")
    with pytest.raises(UsageError, match="RE2's syntax is read"):
        check_pattern(pattern)
