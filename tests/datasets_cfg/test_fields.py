import pytest

from verigym.datasets_cfg.fields import MISSING, FieldProblem, check_type, extract_gold, fill, find, placeholders


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": 1}, "a", 1),
        ({"a": {"b": 2}}, "a.b", 2),
        ({"a.b": 3, "a": {"b": 2}}, "a.b", 3),
        ({"6b.v2": {"solution": "x"}}, "6b.v2.solution", "x"),
        ({"a": [{"b": 4}]}, "a.0.b", 4),
        ({"a": [5]}, "a.0", 5),
        ({"a": [5]}, "a.1", MISSING),
        ({"a": [5]}, "a.-1", MISSING),
        ({"a": [5]}, "a.99999999999999999999", MISSING),
        ({"a": None}, "a", None),
        ({"a": None}, "a.b", MISSING),
        ({"a": 1}, "b", MISSING),
        ({"a": "text"}, "a.0", MISSING),
        ({"": 1}, ".", MISSING),
    ],
)
def test_find(value, path, found):
    assert find(value, path) is found or find(value, path) == found


def test_types():
    row = {"s": "x", "i": 3, "f": 0.5, "b": True, "l": [], "o": {}}
    for column, kind in [("s", "string"), ("i", "integer"), ("i", "number"), ("f", "number"), ("b", "boolean"),
                         ("l", "list"), ("o", "object")]:  # fmt: skip
        check_type(row, column, kind)
    for column, kind in [("s", "integer"), ("f", "integer"), ("b", "integer"), ("b", "number"), ("i", "boolean")]:
        with pytest.raises(FieldProblem, match=f"expected {kind}"):
            check_type(row, column, kind)


@pytest.mark.parametrize("row", [{}, {"a": None}])
def test_absent_and_null_are_missing(row):
    with pytest.raises(FieldProblem, match="is missing; expected string"):
        check_type(row, "a", "string")


def test_extraction():
    assert extract_gold("work\n#### 1,234", "hash", "answer") == "1,234"
    assert extract_gold(r"So \boxed{\frac{1}{2}}.", "boxed", "solution") == r"\frac{1}{2}"
    assert extract_gold(["A: 3", "A: 4"], "label", "answer") == ["3", "4"]
    with pytest.raises(FieldProblem, match="no gold is found by 'hash'; the text ends in 'none here'"):
        extract_gold("none here", "hash", "answer")
    with pytest.raises(FieldProblem, match="is int; expected text"):
        extract_gold(3, "hash", "answer")


def test_only_names_in_braces_are_placeholders():
    template = r"{question} {n} in \boxed{}, {x+1} {question} {{y}} { z }"
    assert placeholders(template) == ["question", "n", "y"]


def test_filling_is_substitution_and_nothing_else():
    row = {"q": "{secret} {q.__class__} %s", "secret": "s", "n": 3, "l": ["a"]}
    assert fill("{q} / {n} / {l} / \\boxed{}", row) == '{secret} {q.__class__} %s / 3 / ["a"] / \\boxed{}'
    assert fill("{q.__class__} {0} {q!r} {q[0]}", row) == "{q.__class__} {0} {q!r} {q[0]}"
    with pytest.raises(FieldProblem, match="is missing"):
        fill("{gone}", row)
