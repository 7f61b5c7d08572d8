import json

import pytest

from verigym.cli import main
from verigym.datasets_cfg import Failure, load, validate
from verigym.envs.grading import Grader

ROWS = [
    {"question": "1+1?", "answer": "#### 2", "level": 1},
    {"question": "2+1?", "answer": "three", "level": 1},
    {"question": "half?", "answer": r"#### \frac{1}{", "level": 1},
    {"question": "4+1?", "answer": "#### 5", "level": None},
    {"question": "5+1?", "answer": "#### 6", "level": 1},
]


def test_every_row_that_cannot_be_trained_on_is_listed(make, tmp_path):
    prompts = load(make(ROWS), "train", data_dir=tmp_path, options={"string_tier": False})
    seen = []
    with Grader(prompts.environment, workers=0) as grader:
        report = validate(prompts, grader, seen.append)
    assert (report.rows, report.passed) == (5, 2)
    assert [(failure.row, failure.field) for failure in report.failures] == [(1, "answer"), (2, "answer"), (3, "level")]
    assert report.failures[0] == Failure(1, "answer", None, report.failures[0].reason)
    assert "no gold is found by 'hash'" in report.failures[0].reason
    assert seen[-1] == 5


def test_the_command(make, tmp_path, capsys):
    path = make(ROWS)
    arguments = ["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0", "--option", "string_tier=false"]
    assert main(arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    place = tmp_path / "rows.jsonl"
    assert [line.split(", field")[0] for line in lines[:-1]] == [f"{place}, row {row}" for row in (2, 3, 4)]
    assert lines[-1].startswith("2 of 5 golds score the maximum (40.00%): tiny/train, math@")
    assert main([*arguments, "--limit", "1"]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.jsonl", "tiny.yaml"], "nothing else is written"


@pytest.mark.slow
def test_gsm8k_golds_hold_without_string_equality(shared_data, capsys):
    arguments = ["validate", "gsm8k", "--split", "test", "--data-dir", str(shared_data), "--option", "string_tier=false"]
    assert main(arguments) == 0
    assert "1,319 of 1,319 golds" in capsys.readouterr().out


def test_what_the_environment_lacks_is_said_once(shared_data, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("LEAN4_BIN", raising=False)
    options = ["--option", f"lean={tmp_path}/lean"]
    assert main(["validate", "minif2f_proved", "--split", "valid", "--data-dir", str(shared_data), *options]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.startswith("error: the golds of minif2f_proved cannot be graded here: unavailable: lean: ")


def test_many_rows_are_shown_by_cause_and_written_whole(make, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    answers = ["" if n % 3 == 0 else None if n % 7 == 0 else f"#### {n}" for n in range(60)]
    rows = [{"question": f"{n}?", "answer": answer, "level": 1} for n, answer in enumerate(answers)]
    path = make(rows).rename(tmp_path / "sums_2.yaml")
    assert main(["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("20 rows (likewise rows 4, 7, 10, 13, 16, ...): ") and "row 1, field answer" in lines[0]
    assert lines[1].startswith("6 rows (likewise rows 15, 29, 36, 50, 57): ") and "row 8, field answer" in lines[1]
    assert lines[2] == "every one of these rows: sums_2.train.failures.jsonl"
    written = [json.loads(line) for line in (tmp_path / "sums_2.train.failures.jsonl").read_text().splitlines()]
    assert [row["row"] for row in written] == [n + 1 for n in range(60) if n % 3 == 0 or n % 7 == 0]
    assert all(row["kind"] == "failure" and row["reason"] and row["field"] == "answer" for row in written)


def test_a_file_that_cannot_be_written_does_not_hide_the_verdict(make, tmp_path, capsys):
    path = make(ROWS[1:2])
    out = tmp_path / "no-folder/rows.jsonl"
    assert main(["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0", "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert "cannot write" in said.err and "0 of 1 golds score the maximum" in said.out


def test_golds_that_are_whole_texts_get_a_remark(make, tmp_path, capsys):
    text = "We add the two numbers one after the other, and so the answer is "
    rows = [{"question": f"{n}+{n}?", "answer": f"{text}{2 * n}", "level": 1} for n in range(3)]
    rows.append({"question": "1?", "answer": "1", "level": 1})
    path = make(rows, (", extract: hash", ""))
    common = ["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]
    assert main(common) == 0
    (remark,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("remark: "))
    assert remark.startswith(f"remark: {path}:11: the gold of 3 of 4 rows is a whole text, taken word for word: ")
    assert remark.endswith("; `extract: last` takes an answer out of 3 of these 3, such as '0'")
    make(rows[:3], ("extract: hash", "extract: last"))
    assert main(common) == 0
    assert "remark" not in capsys.readouterr().out, "the answers are taken out"
    marked = [{**row, "answer": row["answer"].replace("the answer is ", "\n#### ")} for row in rows]
    make(marked, (", extract: hash", ""))
    assert main(common) == 0
    assert "remark" not in capsys.readouterr().out, "the environment itself reads what stands behind ####"


SPLITS = (
    "files: {train: rows.jsonl}",
    "files: {train: {path: rows.jsonl, where: {column: fold, equals: a}}, "
    "test: {path: rows.jsonl, where: {column: fold, equals: b}}}",
)


@pytest.mark.parametrize("declared", ["", "\nevaluation_only: [test]"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_prompts_that_stand_in_both_splits_are_counted(make, tmp_path, capsys, split, declared):
    rows = [{"question": f"{n}+1?", "answer": f"#### {n + 1}", "level": 1, "fold": "a", "id": f"a{n}"} for n in range(9)]
    rows += [{**row, "fold": "b", "id": f"b{n}"} for n, row in enumerate(rows[2:8])]
    rows += [{"question": "9+9?", "answer": "#### 18", "level": 1, "fold": "b"}, {**rows[0], "fold": "b", "level": None}]
    path = make(rows, (SPLITS[0], SPLITS[1] + declared))
    common = ["validate", f"{path}:{split}", "--data-dir", str(tmp_path), "--workers", "0"]
    main(common)
    said = capsys.readouterr().err
    assert said.startswith("warning: 6 of 7 prompts of tiny/test stand in tiny/train too (rows: 1 (b0) is 3 (a2), ")
    assert "5 (b4) is 7 (a6), ...); take them out" in said and said.count("\n") == 1
    main([*common, "--limit", "1"])
    assert not capsys.readouterr().err
    make([*rows[:9], rows[-2]], (SPLITS[0], SPLITS[1] + declared))
    assert main(common) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("validate", "FILE.SPLIT.failures.jsonl for FILE.yaml"),
        ("validate", "by default train"),
        ("datasets pin", "no --data-dir"),
    ],
)
def test_the_help_says_the_defaults(arguments, said, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*arguments.split(), "--help"]) == 0
    assert said in capsys.readouterr().out
