"""CSV files: cells become values of the types that the description declares."""

import gzip

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load
from verigym.datasets_cfg.csv_rows import csv_rows, value_of

CSV = 'question,answer,level\r\n"1+1,\nsaid ""they""?",#### 2,0\r\n\r\n2+2?,#### 4,7\r\n'


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("string", "007", "007"),
        ("string", "", ""),
        ("integer", " 7 ", 7),
        ("integer", "-7", -7),
        ("integer", "7.0", "7.0"),
        ("integer", "seven", "seven"),
        ("integer", "", None),
        ("number", "7", 7),
        ("number", "7.5", 7.5),
        ("number", "seven", "seven"),
        ("boolean", "True", True),
        ("boolean", "false", False),
        ("boolean", "1", "1"),
        ("list", '["a", 1]', ["a", 1]),
        ("list", "a, b", "a, b"),
        ("object", '{"a": 1}', {"a": 1}),
    ],
)
def test_a_cell_becomes_a_value_of_its_type(kind, cell, value):
    got = value_of(cell, kind)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_a_csv_file_is_a_data_set(make, tmp_path, name, capsys):
    content = b"\xef\xbb\xbf" + CSV.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    path = make(None, ("{train: rows.jsonl}", f"{{train: {name}}}"))
    prompts = load(path, "train", data_dir=tmp_path)
    assert [prompt.references["math"].answer for prompt in prompts] == ["2", "4"]
    assert [prompt.metadata["level"] for prompt in prompts] == [0, 7]
    assert prompts[0].text.startswith('1+1,\nsaid "they"?')
    assert main(["validate", str(path), "--data-dir", str(tmp_path), "--workers", "0"]) == 0
    assert "2 of 2 golds score the maximum" in capsys.readouterr().out


def test_rows_are_chosen_by_a_column_that_nothing_else_uses(make, tmp_path):
    (tmp_path / "rows.csv").write_text(CSV)
    for choice in ("rows: {column: level, first: 5, last: 9}", "where: {column: level, equals: 7}"):
        path = make(
            None,
            ("{train: rows.jsonl}", f"{{train: {{path: rows.csv, {choice}}}}}"),
            (", level: integer", ""),
            ("metadata: [level]", "metadata: []"),
        )
        assert [prompt.references["math"].answer for prompt in load(path, "train", data_dir=tmp_path)] == ["4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,a\n1,2,3\n", "line 1: column 'a' stands twice in the header"),
        ("a,b\n1,2\n1,2,3\n", "line 3: 3 cells; the header has 2"),
        ('a,b\n1,"2\n', "line 2: unexpected end of data"),
        ("a,b\n", "it has no rows"),
        ("", "it is empty"),
    ],
)
def test_a_broken_file_names_line_and_what_was_expected(make, tmp_path, content, message):
    (tmp_path / "rows.csv").write_text(content)
    path = make(None, ("{train: rows.jsonl}", "{train: rows.csv}"))
    with pytest.raises(UsageError) as caught:
        load(path, "train", data_dir=tmp_path)
    assert str(caught.value).startswith(f"{path}:6: ") and f"cannot be read as CSV: {message}" in str(caught.value)


def test_what_is_not_utf8_is_said(tmp_path):
    (tmp_path / "rows.csv").write_bytes("a\né\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8: .*; save the file as UTF-8"):
        csv_rows(tmp_path / "rows.csv", {})
