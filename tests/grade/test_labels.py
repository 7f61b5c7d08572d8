"""`--label-column`: verdicts beside those that the file brings along."""

import json

import pytest

from verigym import load
from verigym.cli import main
from verigym.grade.agreement import agrees
from verigym.grade.reading.columns import Columns, Item, items
from verigym.grade.reading.labels import labels_of
from verigym.grade.reading.records import BadRow, InputRow

ROWS = [
    {"prompt": "1+1?", "answer": "2", "completion": [r"\boxed{2}", r"\boxed{3}"], "human": [True, False]},
    {"prompt": "1+2?", "answer": "3", "completion": r"\boxed{4}", "human": "yes"},
    {"prompt": "2+2?", "answer": "4", "completion": r"\boxed{4}", "human": 0},
    {"prompt": "2+3?", "answer": "5", "completion": r"\boxed{5}", "human": None},
    {"prompt": "2+4?", "answer": "6", "completion": r"\boxed{6}", "human": "perhaps"},
    {"prompt": "2+5?", "answer": "7", "completion": [r"\boxed{7}", "x"], "human": True},
]


@pytest.fixture
def graded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text("\n".join(["", *map(json.dumps, ROWS)]) + "\n")
    command = "grade in.jsonl --env math --out out.jsonl --workers 0 --label-column human"
    assert main(command.split()) == 1, "two labels are bad"
    return tmp_path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_agreement_is_counted_and_disagreements_are_named_by_line(graded, capsys):
    out = capsys.readouterr().out
    assert "label human           the verdict agrees on 2 of 4 (50.00%): both right 1, both wrong 1\n" in out
    assert "  only verdict right  1: line 4\n" in out and "  only label right    1: line 3\n" in out
    assert "listed in out.jsonl.disagreements.jsonl" in out and "  not compared        0 unscored, 4 without a label\n" in out
    found = json.loads((graded / "out.jsonl.summary.json").read_text())["agreement"]
    counts = {
        name: found[name] for name in ("both_right", "both_wrong", "only_verdict_right", "only_label_right", "unlabelled")
    }
    assert counts == dict.fromkeys(counts, 1) | {"unlabelled": 4}
    assert found["only_label_right_at"] == [{"row": 3, "line": 3, "sample_index": 0}]
    listed = lines(graded / "out.jsonl.disagreements.jsonl")
    assert [(line["line"], line["label"], line["new"]["status"]) for line in listed] == [
        (3, True, "incorrect"),
        (4, False, "correct"),
    ]
    assert [line["label"] for line in lines(graded / "out.jsonl")] == [True, False, True, False, None, None, None, None]


def test_a_label_that_is_none_is_a_bad_row_and_its_completions_are_graded(graded):
    bad = lines(graded / "out.jsonl.bad.jsonl")
    assert [(one["line"], one["field"]) for one in bad] == [(6, "human"), (7, "human")]
    assert bad[0]["reason"].startswith("is 'perhaps'; expected true or false")
    assert bad[1]["reason"] == "is one label, and the row has 2 completions; expected a list with one for each"
    assert len(lines(graded / "out.jsonl")) == 8


def test_another_label_column_is_another_job(graded, capsys):
    assert main("grade in.jsonl --env math --out out.jsonl --workers 0".split()) == 2
    assert 'columns.label was "human" and is now null' in capsys.readouterr().err
    assert main("grade in.jsonl --env math --out out.jsonl --workers 0 --overwrite".split()) == 0
    assert not (graded / "out.jsonl.disagreements.jsonl").exists() and "label" not in lines(graded / "out.jsonl")[0]
    assert main("grade in.jsonl --env math --out new.jsonl --workers 0 --label-column humen".split()) == 2
    assert "has no column 'humen' (--label-column); did you mean 'human'?" in capsys.readouterr().err


def test_diff_says_which_of_two_gradings_agrees_more_with_the_labels(graded, capsys):
    old = lines(graded / "out.jsonl")
    old[2]["score"] |= {"status": "correct", "reward": 1.0}
    old[0]["score"] |= {"status": "error", "reward": None, "error": {"kind": "backend", "message": "down"}}
    (graded / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    capsys.readouterr()
    assert main("grade out.jsonl --diff old.jsonl --diff-out changes.jsonl".split()) == 0
    out = capsys.readouterr().out
    assert "agrees with the label on 3 completions: old 2 (66.67%), new 1 (33.33%)" in out
    assert "line 3, sample 1: correct -> incorrect, labelled right" in out
    assert [(change["line"], change["sample_index"], change["label"]) for change in lines(graded / "changes.jsonl")] == [
        (2, 0, True),
        (3, 0, True),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, [True]),
        ("Correct", [True]),
        (1, [True]),
        (0.0, [False]),
        ("no", [False]),
        ("", [None]),
        (None, [None]),
        ([None], [None]),
        (["wrong"], [False]),
    ],
)
def test_spellings(value, expected):
    assert labels_of({"human": value}, "human", 1) == expected


def test_no_label_and_no_verdict_are_compared_with_nothing():
    failed = {"status": "error", "error": {"kind": "backend", "message": "down"}}
    assert agrees(None, {"status": "correct", "error": None}) is None and agrees(True, failed) is None


def test_of_several_columns_a_row_may_lack_some_but_not_all():
    columns = Columns(completions=("a", "b"), references={"answer": "answer"})
    row = {"prompt": "q", "answer": "2"}
    found = [
        list(items(InputRow(1, 1, {**row, **more}), columns, load("math"))) for more in ({"b": "x"}, {"a": None, "b": "y"})
    ]
    assert [(item.column, item.completion.text) for [item] in found if isinstance(item, Item)] == [("b", "x"), ("b", "y")]
    bad = list(items(InputRow(1, 1, row), columns, load("math")))
    assert [one.field for one in bad if isinstance(one, BadRow)] == ["a", "b"]


@pytest.mark.parametrize("later", [False, True])
def test_usual_columns_that_differ_between_rows_are_named(later, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": "1+1?", "answer": "2", "completion": r"\boxed{2}"}] * (40 if later else 1)
    rows.append({"prompt": "1+1?", "answer": "2", "samples": [r"\boxed{2}", r"\boxed{3}"]})
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main("grade in.jsonl --env math --workers 0".split()) == (1 if later else 2)
    both = "--completion-column completion --completion-column samples"
    said = capsys.readouterr().err
    if later:
        assert f"line 41, field 'completion': is missing, and the row has samples; {both} reads both" in said
    else:
        assert "in.jsonl has completions in 2 columns, completion, samples; name what is graded" in said
        assert f"--completion-column completion, or {both}" in said
    assert main(f"grade in.jsonl --env math --workers 0 --overwrite --k 1,2 {both}".split()) == 0
    assert "pass@2" in (out := capsys.readouterr().out) and "  samples     0.5000  of 2" in out
    assert main(f"grade in.jsonl --env math --workers 0 --overwrite {both} --completion-column sampels".split()) == 1
    assert "warning: no row has a completion in the column 'sampels'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", "out.jsonl, line 1: not a line of verigym grade; --diff compares two files of scores"),
        ("--k 4", "--k says how to grade, and nothing is graded here"),
        ("--prompt-column q", "--prompt-column says how to grade"),
        ("--workers 2", "--workers says how to grade"),
        ("--env math", "missing option --out: the scores of out.jsonl go there, and are compared with old.jsonl"),
        (
            "--out new.jsonl",
            "missing option --env, or --data, to grade out.jsonl; without --out too, --diff compares two files",
        ),
    ],
)
def test_diff_of_what_is_no_file_of_scores_says_what_to_give(more, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("out.jsonl", "old.jsonl"):
        (tmp_path / name).write_text(json.dumps(ROWS[0]) + "\n")
    assert main(["grade", "out.jsonl", "--diff", "old.jsonl", *more.split()]) == 2
    assert message in capsys.readouterr().err


def test_diff_reads_scores_of_the_format_before(graded, capsys):
    old = [
        {("sample" if name == "sample_index" else name): value for name, value in line.items()}
        for line in lines(graded / "out.jsonl")
    ]
    (graded / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    assert main("grade out.jsonl --diff old.jsonl".split()) == 0
    assert "same verdict: 8 of 8" in capsys.readouterr().out


def test_lines_of_a_csv_file_count_as_editors_show_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text('prompt,answer,completion,human\n1+1?,2,"two\nlines",yes\n1+2?,3,\\boxed{3},no\n')
    assert main("grade in.csv --env math --workers 0 --label-column human".split()) == 0
    out = capsys.readouterr().out
    assert "only verdict right  1: line 4\n" in out and "only label right    1: line 2\n" in out
    assert [(line["row"], line["line"]) for line in lines(tmp_path / "in.scores.jsonl")] == [(1, 2), (2, 4)]
