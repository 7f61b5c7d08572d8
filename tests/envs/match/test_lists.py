import pytest
from cpu_time import within

from verigym.envs import load
from verigym.envs.extraction.fences import find_program
from verigym.envs.match.lists import split_items, unbracketed, unquoted


@pytest.mark.parametrize(
    "text",
    [
        "a, b",
        "a; b",
        "a\nb",
        "a,\n  b",
        "a, b,",
        "[a, b]",
        "(a; b)",
        r"\{a, b\}",
        r"\left\lbrace a, b\right\rbrace",
        r"\bigl\langle a, b \bigr\rangle",
        "\uff08a, b\uff09",
        "`a, b`",
        "`[a, b]`",
        "[\u201ca\u201d, \u2018b\u2019]",
        "``a'', `b'",
        "\u00aba\u00bb, \u201eb\u201c",
    ],
)
def test_notations_of_one_list(text: str) -> None:
    assert split_items(unbracketed(text)) == ["a", "b"]


@pytest.mark.parametrize("text", ["(a), (b)", "[a, b)", "(a, b", "[a], b]"])
def test_brackets_that_do_not_enclose_the_whole_stay(text: str) -> None:
    assert unbracketed(text) == text


def test_only_one_pair_of_brackets_is_no_part_of_the_list() -> None:
    assert unbracketed("((a, b))") == "(a, b)"
    assert split_items("a,, b") == ["a", "", "b"]
    assert split_items(",") == [""]


@pytest.mark.parametrize("text", ['"a", "b"', "'", '""', "it's'", "`a'b'"])
def test_marks_that_are_no_pair_around_the_whole_stay(text: str) -> None:
    assert unquoted(text) == text


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 50_000,
        ",\n " * 50_000,
        ",   " * 50_000 + "x",
        r"\langle " * 30_000,
        "`" * 100_000,
        "minus " * 30_000,
        "1/" * 50_000,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_lists_and_numbers_take_little_time(answer: str) -> None:
    env = load("match")
    for _ in within(5):
        for reference in ({"kind": "list", "answer": [1, 2]}, {"kind": "numeric", "answer": 1}):
            assert env.score(env.prompt("q", **reference), f"<answer>{answer}</answer>").reward == 0


@pytest.mark.parametrize("text", ["a```\n", "```", "a:```python\n", "\u200b", "a```" + " " * 50], ids=ascii)
def test_hostile_fences_take_little_time(text: str) -> None:
    for _ in within(5):
        find_program(text * 30_000, "python", "fenced")
