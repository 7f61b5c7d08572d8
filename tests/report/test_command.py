"""`verigym report` from the command line, and what its file holds."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from report_inputs import eval_row, make_evaluation, make_run, run_sample, train_row, write_lines

from verigym.cli import main
from verigym.envs import UsageError
from verigym.report.build import ReportOptions, build_report
from verigym.report.reading.inputs import find_inputs


def head(path: Path) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="head">(.*?)</script>', path.read_text(encoding="ascii"))
    found: dict[str, Any] = json.loads(text)
    return found


def texts(path: Path) -> list[dict[str, Any]]:
    chunks = re.findall(r'<script type="text/plain" id="chunk-\d+">(.*?)</script>', path.read_text(encoding="ascii"))
    return [one for chunk in chunks for one in json.loads(gzip.decompress(base64.b64decode(chunk)))]


def columns(index: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    data, found, offset = gzip.decompress(base64.b64decode(index["data"])), {}, 0
    for name, kind in index["layout"]:
        size = struct.calcsize(kind) * index["count"]
        found[name] = struct.unpack(f"<{index['count']}{kind}", data[offset : offset + size])
        offset += size
    assert offset == len(data)
    return found


def test_a_page_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "mine")
    assert main(["report", str(folder)]) == 0
    *findings, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"report: .*/mine/report.html \(0\.\d MB, all 7 samples\)", last)
    assert findings[0] == "  mine: 6 of 6 steps, accuracy on its own held-out prompts 25.0% \u2192 50.0%."
    assert findings[1].startswith("  mine: 12 of 96 completions are unscored")
    found = head(folder / "report.html")
    assert found["title"] == "mine" and found["inputs"][0]["run"]["last"] == 0.5
    assert [one["completion"] for one in texts(folder / "report.html")][:2] == ["It is 1.", "It is 2."]
    index = columns(found["index"])
    assert index["step"] == (0, 1, 2, 3, 4, 5, 6) and index["reward"] == (1.0,) * 7
    assert index["surprise"] == pytest.approx((0.0, *[0.5] * 6))  # beside the mean reward of sums at that step


@pytest.mark.parametrize("argument", ["whole", "mine=whole"])
def test_the_page_of_a_folder_of_runs_is_in_that_folder(
    argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        make_run(tmp_path / "whole" / name)
    assert main(["report", argument]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("report: whole/report.html")
    assert [one["label"] for one in head(tmp_path / "whole/report.html")["inputs"]][0].endswith("one")


def test_the_page_allows_its_own_script_and_style_and_loads_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "mine")
    main(["report", str(folder)])
    page = (folder / "report.html").read_text(encoding="ascii")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert allowed[kind] == f"'sha256-{digest}'"
    assert allowed["default-src"] == "'none'" and "unsafe" not in policy
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)


def test_more_samples_than_fit_are_chosen_by_prompt(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path / "eval", {"m": [["correct", "incorrect"]] * 400})
    path = tmp_path / "page.html"
    built = build_report(find_inputs([str(folder)]), path, ReportOptions(max_samples=100))
    found = head(path)
    assert built.samples == found["samples"] == 800 and 60 < built.shown < 140
    assert found["inputs"][0]["figures"]["sources"][0]["scored"] == 800  # figures cover all
    prompts = columns(found["index"])["prompt"]
    assert all(prompts.count(prompt) == 2 for prompt in prompts)  # whole prompts
    again = tmp_path / "again.html"
    build_report(find_inputs([str(folder)]), again, ReportOptions(max_samples=100))
    assert texts(again) == texts(path)


def test_models_are_compared_on_their_prompts(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path / "eval", {"a": [["correct"], ["incorrect"]], "b": [["correct"], ["correct"]]})
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html"), "--title", "two"]) == 0
    found = head(tmp_path / "page.html")
    (pair,) = found["pairs"]
    assert (
        found["title"] == "two" and pair["prompts"]["gain"] == 0.5 and pair["prompts"]["better"] == 1 and pair["twins"] is None
    )
    assert {one["name"] for one in found["evaluations"]} == {"avg@2"}
    assert [row["difficulty"] for row in found["inputs"][0]["figures"]["difficulties"]] == ["1", "2"]


def test_long_texts_are_cut_and_numbers_that_json_lacks_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_lines(folder / "metrics.jsonl", [train_row(1, loss=float("nan"), kl=float("inf")), eval_row(1, 0.5)])
    write_lines(folder / "samples.jsonl", [run_sample(1, completion="x" * 5000, reward=1.0, advantage=float("nan"))])
    assert main(["report", str(folder), "--max-chars", "1000"]) == 0
    assert "[... 4,000 characters left out ...]" in texts(folder / "report.html")[0]["completion"]
    values = head(folder / "report.html")["curves"][0]["kinds"]["train"]["values"]
    assert "loss" not in values and "kl" not in values


def test_a_run_without_samples_and_a_run_without_steps(tmp_path: Path) -> None:
    for name, rows in (("no_samples", [train_row(1)]), ("no_steps", [])):
        write_lines(tmp_path / name / "metrics.jsonl", rows)
        assert main(["report", str(tmp_path / name)]) == 0
        assert head(tmp_path / name / "report.html")["samples"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["run", "--out", "no/folder/x.html"], "cannot write no/folder/x.html: there is no folder no/folder"),
        (["run", "--graded", "x.jsonl"], "--graded names the input of one file of scores, and 0 are given"),
        (["run", "--out", "run"], "cannot write run: Is a directory"),
        (["run", "--out", "run/metrics.jsonl"], "--out run/metrics.jsonl exists and is no web page; choose another file"),
        (["run", "--out", "run/samples.jsonl"], "--out run/samples.jsonl exists and is no web page; choose another file"),
        (["run", "--difficulty", "nope"], "--difficulty nope: no sample has a column or metadata of that name"),
        (["a=run", "a=run"], "two inputs are called"),
        (["=run"], "=run: expected NAME=PATH or PATH, and the name is empty"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert not list(tmp_path.glob(".*partial"))


def test_too_many_inputs_are_refused(tmp_path: Path) -> None:
    for number in range(65):
        make_run(tmp_path / f"runs/{number}", steps=1)
    with pytest.raises(UsageError, match="65 inputs; a report shows at most 64"):
        find_inputs([str(tmp_path / "runs")])
