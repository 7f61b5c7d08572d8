import pytest

from verigym.bench.cases import Case, CaseColumns, boxed, make_case
from verigym.envs import UsageError
from verigym.grade.reading.records import BadRow, InputRow

ALL = CaseColumns(level="level", policy="policy")


def case(columns=ALL, **data):
    row = {"gold": "1", "pred": "1", "expected": True, "level": "answer", "policy": False, **data}
    return make_case(InputRow(3, 4, {name: value for name, value in row.items() if value is not ...}), columns)


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("5", r"\boxed{5}"),
        (" $5$ ", r"\boxed{5}"),
        ("$$5$$", r"\boxed{5}"),
        ("$5", r"\boxed{$5}"),
        ("$", r"\boxed{$}"),
        (r"so \boxed{5}", r"so \boxed{5}"),
        ("", r"\boxed{}"),
    ],
)
def test_wrapping(text, wrapped):
    assert boxed(text) == wrapped


@pytest.mark.parametrize(
    ("level", "completion", "group"),
    [
        ("answer", r"\boxed{x}", "answers"),
        ("completion", " $x$", "answers"),
        ("completion_unboxed", " $x$", "unboxed, extract=last"),
    ],
)
def test_levels(level, completion, group):
    found = case(level=level, pred=" $x$")
    assert isinstance(found, Case)
    assert (found.completion, found.group, found.answer, found.row, found.line) == (completion, group, " $x$", 3, 4)
    assert case(level=level, policy=True).group == ("policy, unboxed" if level == "completion_unboxed" else "policy")


@pytest.mark.parametrize(
    ("value", "label"),
    [(True, True), (0, False), (1, True), ("True", True), (" no ", False), ("correct", True), ("wrong", False)],
)
def test_labels(value, label):
    assert case(expected=value).expected is label


def test_golds_may_be_numbers_and_lists():
    assert case(gold=3).golds == ("3",)
    assert case(gold=["1/2", 0.5]).golds == ("1/2", "0.5")


def test_one_level_for_all_rows_and_a_missing_policy():
    assert case(CaseColumns(all_level="completion"), level="Level 5").level == "completion"
    assert case(policy=...).policy is False
    assert case(policy="").policy is False


def test_one_label_for_all_rows_and_golds_in_a_text():
    columns = CaseColumns(all_label=False, gold_extract="boxed")
    assert "expected" not in columns.used()
    found = case(columns, gold=r"so \boxed{3}", expected=...)
    assert (found.golds, found.expected) == (("3",), False)
    assert case(columns, gold="no box").reason.startswith("no gold is found by 'boxed'")


@pytest.mark.parametrize(
    ("data", "field", "reason"),
    [
        ({"gold": ...}, "gold", "is missing; expected text or a number"),
        ({"gold": None}, "gold", "is null"),
        ({"gold": []}, "gold", "is empty"),
        ({"gold": ["1", " "]}, "gold", "is empty"),
        ({"pred": {"a": 1}}, "pred", "is dict; expected text or a number"),
        ({"pred": True}, "pred", "is bool"),
        ({"expected": "perhaps"}, "expected", "is 'perhaps'; expected true or false"),
        ({"expected": None}, "expected", "is null"),
        ({"expected": [True]}, "expected", "expected true or false"),
        ({"level": "Level 5"}, "level", "is 'Level 5'; expected answer, completion"),
        ({"level": ...}, "level", "is missing"),
        ({"policy": "x"}, "policy", "expected true or false"),
    ],
)
def test_rows_that_do_not_fit_name_the_field(data, field, reason):
    found = case(**data)
    assert isinstance(found, BadRow)
    assert (found.number, found.line, found.field) == (3, 4, field)
    assert reason in found.reason


def test_columns_that_go_by_default():
    settled = CaseColumns().settled(["gold", "pred", "expected", "level"], [], "f")
    assert (settled.level, settled.policy) == ("level", None)
    assert CaseColumns(all_level="answer").settled(["gold", "pred", "expected", "level"], [], "f").level is None


def test_a_column_that_exists_nowhere():
    with pytest.raises(UsageError, match="f has no column 'pred'; did you mean 'preds'"):
        CaseColumns().settled(["gold", "preds", "expected"], [], "f")
    with pytest.raises(UsageError, match="no column 'kind'"):
        CaseColumns(level="kind").settled(["gold", "pred", "expected"], [], "f")
    assert CaseColumns(gold="a.b").settled(["a", "pred", "expected"], [{"a": {"b": 1}}], "f").gold == "a.b"
