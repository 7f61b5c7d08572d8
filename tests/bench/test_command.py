import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from patience import HANG_S, wait_for

from verigym.cli import main

ROWS = [
    {"gold": "4", "pred": "4", "expected": True, "level": "answer", "policy": False},
    {"gold": "4", "pred": "5", "expected": False, "level": "answer", "policy": False},
    {"gold": "4", "pred": "4.0", "expected": True, "level": "answer", "policy": False},
    {"gold": "4", "pred": r"It is \boxed{4}.", "expected": True, "level": "completion", "policy": False},
    {"gold": "4", "pred": "It is $4$", "expected": True, "level": "completion_unboxed", "policy": False},
    {"gold": "50", "pred": r"50\%", "expected": True, "level": "answer", "policy": True},
]
PEERS = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def peers(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_the_table_the_report_and_the_disagreements(tmp_path, capsys):
    source, report, listing = write(tmp_path / "c.jsonl", ROWS), tmp_path / "r.json", tmp_path / "d.jsonl"
    more = ["--out", str(report), "--disagreements", str(listing)]
    assert main(["bench", "math", source, "--against", "peers:same", *more]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^answers +math@", shown, re.MULTILINE) and re.search(
        r"^unboxed, extract=last +math@", shown, re.MULTILINE
    )
    assert re.search(r"^false negatives +0 of 3 +2 of 3$", shown, re.MULTILINE) and "1 policy rows left out" in shown
    assert 'line 3, answers: gold "4", answer "4.0", labelled right' in shown
    assert "  ! peers:same: rejected" in shown
    figures = json.loads(report.read_text())
    ours = next(name for name in figures["groups"]["answers"] if name.startswith("math@"))
    boxed = figures["groups"]["answers"]
    assert boxed[ours]["false_negatives"] == boxed[ours]["false_positives"] == 0
    assert (boxed["peers:same"]["false_negatives"], boxed["peers:same"]["rows"]) == (2, 4)
    assert list(figures["groups"]) == ["answers", "unboxed, extract=last"]
    lines = [json.loads(line) for line in listing.read_text().splitlines()]
    assert [line["row"] for line in lines] == [3, 4, 5]
    assert lines[0]["verdicts"]["peers:same"]["kind"] == "rejected" and lines[0]["verdicts"][ours]["kind"] == "accepted"


def test_policy_rows_and_options(tmp_path, capsys):
    source = write(tmp_path / "c.jsonl", ROWS)
    assert main(["bench", "math", source, "--include-policy", "--option", "percent=either"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^policy +math@", shown, re.MULTILINE) and "no disagreement" in shown


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_other_formats_and_columns(tmp_path, capsys, suffix):
    path = tmp_path / f"c.{suffix}"
    rows = [("7", "7", "true"), ("7", "8", "false")]
    if suffix == "csv":
        path.write_text("answer,said,ok\n" + "".join(",".join(row) + "\n" for row in rows))
    else:
        table = pyarrow.table({name: [row[i] for row in rows] for i, name in enumerate(("answer", "said", "ok"))})
        pyarrow.parquet.write_table(table, path)
    columns = ["--gold-column", "answer", "--answer-column", "said", "--label-column", "ok"]
    assert main(["bench", "math", str(path), *columns]) == 0
    assert "0 of 1" in capsys.readouterr().out


def test_bad_rows_are_named_and_the_rest_is_graded(tmp_path, capsys):
    source = write(tmp_path / "c.jsonl", [ROWS[0], {**ROWS[0], "expected": "maybe"}, ROWS[1]])
    assert main(["bench", "math", source]) == 1
    captured = capsys.readouterr()
    assert f"bad row: {source}, line 2, field 'expected': is 'maybe'; expected true or false" in captured.err
    assert "1.0000" in captured.out


def test_the_first_rows_only(tmp_path):
    source, report = write(tmp_path / "c.jsonl", ROWS * 3), tmp_path / "r.json"
    assert main(["bench", "math", source, "--limit", "2", "--out", str(report)]) == 0
    (figures,) = json.loads(report.read_text())["groups"]["answers"].values()
    assert figures["rows"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["c.jsonl", "--gold-column", "golds"], "c.jsonl has no column 'golds'; did you mean 'gold'"),
        (["c.jsonl", "--against", "mathverify"], "expected math-verify or module:function"),
        (["c.jsonl", "--against", "peers:same", "--against", "peers:same"], "the same grader is given twice"),
        (["c.jsonl", "--option", "x=1"], "unknown field 'x'"),
        (["c.jsonl", "--level", "boxed"], "field 'all_level'"),
        (["c.jsonl", "--out", "no/r.json"], "cannot write --out no/r.json: no folder no"),
        (["c.jsonl", "--out", "c.jsonl"], "--out would overwrite the input"),
        (["c.jsonl", "--out", "r", "--disagreements", "r"], "--out and --disagreements are one file"),
        (["c.jsonl", "--disagreements", "c.jsonl"], "--disagreements would overwrite the input"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "c.jsonl", ROWS)
    assert main(["bench", "math", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1
    assert (tmp_path / "c.jsonl").stat().st_size > 100


def test_nothing_but_policy_rows(tmp_path, capsys):
    assert main(["bench", "math", write(tmp_path / "c.jsonl", ROWS[-1:])]) == 2
    assert "holds no cases; 1 policy rows are left out, see --include-policy" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupt_shows_what_is_there(tmp_path):
    rows = [{**ROWS[0], "gold": str(n), "pred": str(n)} for n in range(200)]
    source = write(tmp_path / "c.jsonl", [*rows, {**ROWS[0], "pred": f"hang {tmp_path}/hung"}])
    command = [sys.executable, "-m", "verigym", "bench", "math", source, "--against", "peers:hangs", "--isolate"]
    listing = tmp_path / "d.jsonl"
    process = subprocess.Popen(
        [*command, "--disagreements", str(listing)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PEERS},
    )
    wait_for((tmp_path / "hung").exists, process)
    os.kill(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, error
    assert "0 of 200" in out and "1.0000" in out
    assert error.splitlines()[-1] == "error: interrupted after 200 cases; the figures are theirs"
    assert "Traceback" not in error
