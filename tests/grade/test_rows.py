import gzip
import io
import json
import sys

import pyarrow
import pyarrow.parquet
import pytest

from verigym.envs import UsageError
from verigym.grade.reading.opening import open_source
from verigym.grade.reading.records import BadRow, InputRow


def read(path, format=None, **limits):
    with open_source(str(path), format, **limits) as source:
        return list(source)


def numbers_and_reasons(records):
    return [(record.number, record.line, record.reason) for record in records if isinstance(record, BadRow)]


def test_jsonl_rows_are_numbered_by_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n{"a": 3}', encoding="utf-8")
    assert read(path) == [InputRow(1, 1, {"a": 1}), InputRow(3, 3, {"a": 2}), InputRow(4, 4, {"a": 3})]


def test_bom_and_windows_line_ends(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": "x"}\r\n{"a": "y"}\r\n')
    assert [row.data["a"] for row in read(path)] == ["x", "y"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"not json", "not JSON: Expecting value at column 1"),
        (b'{"a": 1', "not JSON: it ends at column 7 (Expecting ',' delimiter behind it: cut off?)"),
        (b'{"a": 1, "bcd": "ef', "not JSON: it ends at column 19, inside the string that starts at column 17 (cut off?)"),
        (b'{"a": 1 "b": 2}', "not JSON: Expecting ',' delimiter at column 9"),
        (b"[1, 2]", "expected a JSON object, one a line; got list"),
        (b'"text"', "got str"),
        (b'{"a": 1, "a": 2}', "key 'a' occurs twice"),
        (b'{"b": {"a": 1, "a": 2}}', "key 'a' occurs twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": "\xff"}', "not UTF-8 (byte 8"),
        (b'{"a": "\x00"}', "not JSON: Invalid control character"),
        (b"[" * 100_000, "nested deeper than 100 levels"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not usable JSON: Exceeds the limit"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "longer than 200,000 bytes"),
    ],
)
def test_bad_jsonl_lines_are_named_and_the_rest_goes_on(tmp_path, line, reason):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 3}\n')
    first, bad, last = read(path, max_record_bytes=200_000)
    assert (first, last) == (InputRow(1, 1, {"a": 1}), InputRow(3, 3, {"a": 3}))
    assert isinstance(bad, BadRow) and (bad.number, bad.line) == (2, 2)
    assert reason in bad.reason and "\n" not in bad.reason


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_read_row_by_row(tmp_path, indent, packed):
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    text = "\n" + json.dumps([{"a": 1}, 5, {"a": [{"b": 2}]}], indent=indent) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    one, bad, three = read(path)
    assert (one, three) == (InputRow(1, None, {"a": 1}), InputRow(3, None, {"a": [{"b": 2}]}))
    assert bad == BadRow(2, None, "", "expected a JSON object; got int")


def test_one_object_over_several_lines_is_one_row(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": 1, "choices": [{"b": 2}]}, indent=1))
    assert read(path) == [InputRow(1, None, {"a": 1, "choices": [{"b": 2}]})]


def test_gzip_is_told_by_its_bytes(tmp_path):
    path = tmp_path / "a.jsonl"  # no .gz in the name
    path.write_bytes(gzip.compress(b'{"a": 1}\n'))
    assert read(path) == [InputRow(1, 1, {"a": 1})]


def test_a_gzip_that_ends_too_early_gives_its_rows_first(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = b"".join(json.dumps({"a": hash_like(i)}).encode() + b"\n" for i in range(5000))
    path.write_bytes(gzip.compress(lines)[:-2000])
    rows = []
    with pytest.raises(UsageError, match=r"a\.jsonl\.gz, after line \d+: the gzip stream ends too early"):
        with open_source(str(path)) as source:
            for row in source:
                rows.append(row)
    assert len(rows) > 1000


def hash_like(index):
    return index * 2654435761 % 2**32


def test_csv_fields_may_hold_commas_quotes_and_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('q,a\n"one, ""two""\nthree",1\n\nx,2\n', encoding="utf-8")
    assert read(path) == [InputRow(1, 2, {"q": 'one, "two"\nthree', "a": "1"}), InputRow(2, 5, {"q": "x", "a": "2"})]


def test_csv_fields_may_be_longer_than_the_module_allows_by_default(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("q,a\n" + "x" * 300_000 + ",1\n", encoding="utf-8")
    assert len(read(path)[0].data["q"]) == 300_000


def test_bad_csv_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'q,a\nonly one\nx,1\na,b,c\n"x"y,1\nz\x00,1\n\xff,1\ngood,2\n"open,1\n')
    records = read(path)
    assert [row.data["q"] for row in records if isinstance(row, InputRow)] == ["x", "good"]
    assert numbers_and_reasons(records) == [
        (1, 2, "1 columns; the header has 2"),
        (3, 4, "3 columns; the header has 2"),
        (4, 5, "',' expected after '\"'"),
        (5, 6, "a NUL character"),
        (6, 7, "not UTF-8 (byte 1: invalid start byte)"),
        (8, 9, "unexpected end of data"),
    ]


def test_a_quote_left_open_does_not_swallow_the_memory(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('q,a\n"open' + "\nx,1" * 1000 + "\n", encoding="utf-8")
    records = read(path, max_record_bytes=100)
    assert isinstance(records[0], BadRow) and "a quote left open?" in records[0].reason
    assert isinstance(records[-1], InputRow)


def test_parquet_rows(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"q": [f"q{i}" for i in range(300)], "n": [{"m": i} for i in range(300)], "big": ["x"] * 300})
    pyarrow.parquet.write_table(table, path)
    with open_source(str(path)) as source:
        source.select(["q", "n.m"])
        rows = list(source)
        assert source.fraction() == 1.0
    assert rows[299] == InputRow(300, None, {"q": "q299", "n": {"m": 299}})


def test_parquet_text_that_is_not_utf8_is_a_bad_row(tmp_path):
    path = tmp_path / "a.parquet"
    raw = pyarrow.array([b"ok", b"\xff", b"fine"], pyarrow.binary())
    text = pyarrow.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    pyarrow.parquet.write_table(pyarrow.table({"q": text}), path)
    one, bad, three = read(path)
    assert (one.data["q"], three.data["q"]) == ("ok", "fine")
    assert isinstance(bad, BadRow) and bad.number == 2


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b'{"a": 1}\n'))))
    assert read("-") == [InputRow(1, 1, {"a": 1})]


@pytest.mark.parametrize(
    ("name", "content", "format", "message"),
    [
        ("a.txt", b"x", None, "cannot tell the format of .*pass --format"),
        ("a.jsonl", b"", None, "is empty"),
        ("a.jsonl.gz", b'{"a": 1}', None, "is not a gzip file"),
        ("a.json", b'[{"a": 1},\n {"a": 2', None, "a.json, line 2: not JSON: it ends at column 8 .*begins with an array"),
        ("a.json", b'[{"a": 1}]\n[2]', None, "a.json, line 2: not JSON: Extra data at column 1; the file begins with an array"),
        ("a.json", b'[{"a": NaN}]', None, "a.json: NaN is not JSON"),
        ("a.json", b'["\xff"]', None, "a.json: not UTF-8"),
        ("a.json.gz", gzip.compress(b"[1]" * 999, mtime=0)[:-9], None, r"a.json.gz: the gzip stream ends too early"),
        ("a.jsonl", b"PAR1....", None, "is a Parquet file, but is to be read as jsonl"),
        ("a.parquet", b"nothing", None, "is not a Parquet file"),
        ("a.parquet", b"PAR1garbage", None, "is not a readable Parquet file"),
        ("a.csv", b"a,a\n1,2\n", None, "line 1: column 'a' occurs twice"),
        ("a.csv", b"\xff\n", None, "line 1: the header cannot be read: not UTF-8"),
        ("a.csv", b"\n1,2\n", None, "line 1: expected a header"),
        ("a.jsonl", b"{}", "xml", "--format 'xml' is not known; known: csv, jsonl, parquet"),
        ("a.jsonl", b"{}", "json", "did you mean 'jsonl'"),
    ],
)
def test_inputs_that_cannot_be_read(tmp_path, name, content, format, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read(path, format)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b'{"prompt": "p", "completion": "c"}\n', "a.csv looks like JSON Lines.*--format jsonl, or name it a.jsonl"),
        ("a.csv.gz", gzip.compress(b'{"prompt": "p"}\n', mtime=0), "looks like JSON Lines.*name it a.jsonl"),
        ("a.csv", b'\xef\xbb\xbf[{"prompt": "p"}]', "looks like JSON Lines"),
        ("a.jsonl", b"prompt,answer,completion\n1+1?,2,2\n", "looks like CSV.*'prompt,answer.*--format csv, or name it a.csv"),
        ("a.jsonl", b'"prompt","answer"\n"1+1?","2"\n', "looks like CSV"),
        ("a.json", b"prompt\tanswer\n1\t2\n", "looks like a table with tabs.*save it with commas"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("content", [b'broken, line\n{"a": 1}\n', b'"a", "b"\n', b"1,2\n", b"word\n", b"Sorry, an error.\n"])
def test_a_broken_line_alone_is_a_bad_row(tmp_path, content):
    (tmp_path / "a.jsonl").write_bytes(content)
    assert isinstance(read(tmp_path / "a.jsonl")[0], BadRow)


def test_a_missing_file_suggests_its_neighbour(tmp_path):
    (tmp_path / "outputs.jsonl").write_text("{}")
    with pytest.raises(UsageError, match="does not exist; did you mean 'outputs.jsonl'"):
        read(tmp_path / "output.jsonl")
    with pytest.raises(UsageError, match="there is no folder"):
        read(tmp_path / "nowhere" / "a.jsonl")
