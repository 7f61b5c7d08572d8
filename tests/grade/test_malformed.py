"""Whatever is wrong with a call or a file, the answer is one line that names the place."""

import gzip
import json
import os
import subprocess
import sys

import pytest

from verigym.cli import main
from verigym.exit_codes import ExitCode
from verigym.grade.out_file import sidecar

GOOD = {"prompt": "1+1?", "answer": "2", "completion": r"\boxed{2}"}
GOOD_LINE = json.dumps(GOOD).encode() + b"\n"
IN, OUT = "in.jsonl", "out.jsonl"


def text(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


# files, arguments after `grade`, what the one line must say
USAGE = {
    "no input at all": ({}, ["--env", "math", "--out", OUT], "Missing argument 'INPUT'"),
    "missing file": ({}, ["in.jsonl"], "in.jsonl does not exist"),
    "missing file beside a similar one": ({"im.jsonl": GOOD_LINE}, [IN], "did you mean 'im.jsonl'"),
    "a directory": ({}, ["."], ". is a directory"),
    "NUL in the file name": ({}, ["a\0b.jsonl"], "cannot read 'a\\x00b.jsonl'"),
    "unknown environment": ({IN: GOOD_LINE}, [IN, "--env", "mth"], "no environment is called 'mth'; did you mean 'math'"),
    "unknown option": ({IN: GOOD_LINE}, [IN, "--option", "extrct=boxed"], "unknown field 'extrct'; did you mean 'extract'"),
    "bad option value": ({IN: GOOD_LINE}, [IN, "--option", "string_tier=perhaps"], "field 'string_tier'"),
    "option without =": ({IN: GOOD_LINE}, [IN, "--option", "extract"], "--option 'extract': expected NAME=VALUE"),
    "option given twice": ({IN: GOOD_LINE}, [IN, *["--option", "extract=last"] * 2], "--option 'extract' is given twice"),
    "option with broken JSON": ({IN: GOOD_LINE}, [IN, "--option", "extract=[1"], "--option extract: not JSON"),
    "unknown flag": ({IN: GOOD_LINE}, [IN, "--colour"], "no option --colour"),
    "a count that is no number": ({IN: GOOD_LINE}, [IN, "--k", "1,two"], "--k '1,two': expected counts"),
    "negative workers": ({IN: GOOD_LINE}, [IN, "--workers", "-1"], "--workers"),
    "no time": ({IN: GOOD_LINE}, [IN, "--timeout-s", "0"], "--timeout-s"),
    "endless time": ({IN: GOOD_LINE}, [IN, "--timeout-s", "inf"], "timeout_s"),
    "unknown format": ({IN: GOOD_LINE}, [IN, "--format", "xml"], "--format 'xml' is not known"),
    "format that the name does not tell": ({"in.txt": GOOD_LINE}, ["in.txt"], "cannot tell the format of in.txt"),
    "not a gzip file": ({"in.jsonl.gz": GOOD_LINE}, ["in.jsonl.gz"], "in.jsonl.gz is not a gzip file"),
    "gzip cut off": ({"in.jsonl.gz": gzip.compress(GOOD_LINE * 9)[:-9]}, ["in.jsonl.gz"], "gzip stream ends too early"),
    "gzip damaged": (
        {"in.jsonl.gz": gzip.compress(GOOD_LINE)[:12] + b"x" * 50},
        ["in.jsonl.gz"],
        "in.jsonl.gz: the gzip stream",
    ),
    "Parquet garbage": ({"in.parquet": b"PAR1" + b"x" * 50}, ["in.parquet"], "in.parquet is not a readable Parquet file"),
    "JSONL called Parquet": ({"in.parquet": GOOD_LINE}, ["in.parquet"], "in.parquet is not a Parquet file"),
    "empty file": ({IN: b""}, [IN], "in.jsonl is empty"),
    "blank lines only": ({IN: b"\n\n  \n"}, [IN], "in.jsonl holds no rows"),
    "CSV with a header only": ({"in.csv": b"prompt,answer,completion\n"}, ["in.csv"], "in.csv holds no rows"),
    "CSV header with a name twice": ({"in.csv": b"a,a\n1,2\n"}, ["in.csv"], "in.csv, line 1: column 'a' occurs twice"),
    "unknown prompt column": (
        {IN: GOOD_LINE},
        [IN, "--prompt-column", "promt"],
        "no column 'promt' (--prompt-column); did you mean 'prompt'",
    ),
    "unknown CSV column": ({"in.csv": b"prompt,answer,text\na,1,b\n"}, ["in.csv"], "in.csv has no column 'completion'"),
    "unknown reference column": ({IN: GOOD_LINE}, [IN, "--reference", "answer=gold"], "in.jsonl has no column 'gold'"),
    "unknown reference field": (
        {IN: GOOD_LINE},
        [IN, "--reference", "anser=answer"],
        "no field 'anser'; did you mean 'answer'",
    ),
    "reference without a name": ({IN: GOOD_LINE}, [IN, "--reference", "=answer"], "--reference '=answer': expected NAME=VALUE"),
    "unknown group column": ({IN: GOOD_LINE}, [IN, "--group-by", "id"], "has no column 'id'"),
    "unknown extraction": ({IN: GOOD_LINE}, [IN, "--gold-extract", "magic"], "gold_extract"),
    "output folder missing": ({IN: GOOD_LINE}, [IN, "--out", "no/out.jsonl"], "there is no folder no"),
    "output is a folder": ({IN: GOOD_LINE, "sub/x": b""}, [IN, "--out", "sub"], "--out sub is a folder; name a file in it"),
    "output is this folder": ({IN: GOOD_LINE}, [IN, "--out", "."], "--out . is a folder"),
    "output that promises gzip": (
        {IN: GOOD_LINE},
        [IN, "--out", "x.jsonl.gz"],
        "--out x.jsonl.gz: what is written is JSON Lines",
    ),
    "output that promises Parquet": ({IN: GOOD_LINE}, [IN, "--out", "x.parquet"], "name it x.jsonl and convert it"),
    "output that promises CSV": ({IN: GOOD_LINE}, [IN, "--out", "x.CSV"], "--out x.CSV: what is written is JSON Lines"),
    "changes that promise gzip": (
        {IN: GOOD_LINE, "old.jsonl": GOOD_LINE},
        [IN, "--diff", "old.jsonl", "--diff-out", "c.gz"],
        "--diff-out c.gz: what is written is JSON Lines",
    ),
    "output is the input": ({IN: GOOD_LINE}, [IN, "--out", "./in.jsonl"], "--out would overwrite the input in.jsonl"),
    "a side file is the input": (
        {"a.bad.jsonl": GOOD_LINE},
        ["a.bad.jsonl", "--out", "a"],
        "bad.jsonl would overwrite the input a.bad.jsonl",
    ),
    "output of somebody else": ({IN: GOOD_LINE, OUT: b"notes"}, [IN], "cannot be continued; pass --overwrite"),
    "output is a device": ({IN: GOOD_LINE}, [IN, "--out", "/dev/full"], "--out /dev/full is no regular file"),
    "cache is the output": ({IN: GOOD_LINE}, [IN, "--out", OUT, "--cache", OUT], f"--cache and --out are both {OUT}"),
    "cache that is no cache": ({IN: GOOD_LINE, "c.db": b"x" * 5000}, [IN, "--cache", "c.db"], "c.db"),
}


@pytest.mark.parametrize("case", USAGE)
def test_a_mistake_in_the_call_is_one_line_and_exit_code_2(case, tmp_path, monkeypatch, capsys):
    files, arguments, message = USAGE[case]
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for flag, value in (("--env", "math"), ("--out", OUT), ("--workers", "0")):
        if flag not in arguments:
            arguments = [*arguments, flag, value]
    code = main(["grade", *arguments])
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1, captured.err
    assert message in captured.err
    assert "Traceback" not in captured.err + captured.out
    assert code == 2
    if IN in files:
        assert (tmp_path / IN).read_bytes() == files[IN], "the input is untouched"


# rows that are bad: the bytes between two good rows, the field, the reason
BAD_ROWS = {
    "not JSON": (b"{oops}\n", "", "not JSON"),
    "not an object": (b"[1]\n", "", "expected a JSON object"),
    "not UTF-8": (b'{"prompt": "\xff"}\n', "", "not UTF-8"),
    "a NUL byte": (b'{"prompt": "\x00"}\n', "", "not JSON"),
    "duplicate key": (b'{"prompt": "a", "prompt": "b"}\n', "", "key 'prompt' occurs twice"),
    "nan": (b'{"prompt": NaN}\n', "", "NaN is not JSON"),
    "nested too deeply": (b'{"prompt": ' + b"[" * 50_000 + b"\n", "", "nested deeper than 100 levels"),
    "huge line": (b'{"prompt": "' + b"x" * (17 * 2**20) + b'"}\n', "", "longer than 16,777,216 bytes"),
    "no prompt": (text({**GOOD, "prompt": None}), "prompt", "is null"),
    "no completion": (text({"prompt": "q", "answer": "2"}), "completion", "is missing"),
    "completion is a number": (text({**GOOD, "completion": 2}), "completion", "is int"),
    "no reference": (text({"prompt": "q", "completion": "c"}), "answer", "is missing"),
    "reference of the wrong type": (text({**GOOD, "answer": {"a": 1}}), "answer", "reference of 'math'"),
    "gold that does not parse": (text({**GOOD, "answer": r"\frac{1}{"}), "answer", "gold"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_listed_and_the_rest_is_graded(case, tmp_path, capsys):
    middle, field, reason = BAD_ROWS[case]
    source, out = tmp_path / IN, tmp_path / OUT
    source.write_bytes(GOOD_LINE + middle + GOOD_LINE)
    assert main(["grade", str(source), "--env", "math", "--out", str(out), "--workers", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.err.strip().splitlines()[-1].startswith("warning: 1 bad row (the first, line 2")
    assert "Traceback" not in captured.err
    [bad] = [json.loads(line) for line in sidecar(out, "bad.jsonl").read_text().splitlines()]
    assert (bad["file"], bad["row"], bad["line"], bad["field"]) == (str(source), 2, 2, field)
    assert reason in bad["reason"] and len(bad["reason"]) < 500
    scores = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["row"] for line in scores if line["score"]["status"] == "correct"] == [1, 3]


def test_all_rows_bad(tmp_path, capsys):
    source = tmp_path / IN
    source.write_bytes(b"x\ny\n")
    assert main(["grade", str(source), "--env", "math", "--out", str(tmp_path / OUT), "--workers", "0"]) == ExitCode.NONE_SCORED
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"error: all 2 rows of {source} are bad; the first, line 1: not JSON" in error
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {IN, f"{OUT}.bad.jsonl", f"{OUT}.summary.json"}  # no scores, and nothing that says how they were made


def test_all_rows_bad_leave_nothing_beside_the_input(tmp_path, capsys):
    source = tmp_path / IN
    source.write_bytes(b"x\ny\n")
    assert main(["grade", str(source), "--env", "math", "--workers", "0"]) == ExitCode.NONE_SCORED
    assert "line 1: not JSON" in (error := capsys.readouterr().err) and "; --out names a file" in error
    assert [path.name for path in tmp_path.iterdir()] == [IN]


def test_what_was_read_before_a_break_is_graded(tmp_path, capsys):
    source, out = tmp_path / "in.jsonl.gz", tmp_path / OUT
    rows = b"".join(text({**GOOD, "completion": os.urandom(200).hex()}) for _ in range(300))
    source.write_bytes(gzip.compress(rows)[:-4000])
    assert main(["grade", str(source), "--env", "math", "--out", str(out), "--workers", "0"]) == 2
    assert "after line" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) > 100


@pytest.mark.slow
def test_the_real_program(tmp_path):
    """The same through a process: no traceback, the right exit code, nothing on standard output."""
    command = [sys.executable, "-m", "verigym", "grade", "nowhere.jsonl", "--env", "math", "--out", "out.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: nowhere.jsonl does not exist\n"
