"""Each data set of an evaluation may have a folder of its own; what does not say which is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verigym import cli

DATASET = """
name: {name}
description: Sums.
licence: MIT
url: https://example.org
files: {{train: train.jsonl, test: test.jsonl}}
environment: math
columns: {{question: string, answer: string}}
prompt: "{{question}}"
question: "{{question}}"
reference: {{answer: {{column: answer}}}}
"""


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two data sets, the files of each in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for name, start in (("one", 1), ("two", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.yaml").write_text(DATASET.format(name=name))
        for split in ("train", "test"):
            rows = [{"question": f"{start}+{n}=", "answer": str(start + n)} for n in range(3)]
            (tmp_path / name / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def evaluate(model: Path, *more: str) -> int:
    command = ["eval", f"mine={model}", "--output", "out", "--max-new-tokens", "4"]
    return cli.main([*command, "--set", "workers=0", "--set", "device=cpu", *more])


def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("out/report.json").read_text())
    return found


@pytest.mark.slow
def test_each_data_set_has_its_own_folder(sets: Path, sums_model: Path) -> None:
    folders = ["--data-dir", "one.yaml=one", "--data-dir", "two.yaml=two"]
    assert evaluate(sums_model, "--data", "one.yaml", "--data", "two.yaml", "--train-data", "two.yaml:train", *folders) == 0
    made = report()["start"]["made_with"]
    assert [source["data_dir"] for source in made["sources"]] == ["one", "two"]
    found = report()["contamination"]
    assert [found[label]["hits"] for label in ("one.yaml", "two.yaml")] == [0, 3], "training data is read in its own folder"


@pytest.mark.slow
def test_a_folder_without_a_name_is_that_of_the_others(sets: Path, sums_model: Path) -> None:
    folders = ["--data-dir", "one", "--data-dir", "two.yaml=two"]
    assert evaluate(sums_model, "--data", "one.yaml", "--data", "two.yaml", *folders) == 0
    assert [source["data_dir"] for source in report()["start"]["made_with"]["sources"]] == ["one", "two"]


def test_training_data_alone_may_have_a_folder(sets: Path, sums_model: Path) -> None:
    more = ["--env", "units", "--prompts", "2", "--train-data", "two.yaml:train", "--data-dir", "two.yaml=two"]
    assert evaluate(sums_model, *more) == 0
    assert report()["contamination"]["units"]["hits"] == 0


@pytest.mark.slow
def test_a_run_s_file_names_data_sets_too(sets: Path, sums_model: Path) -> None:
    (sets / "run.yaml").write_text("model: m\nsources:\n  - dataset: one.yaml\n  - {dataset: two.yaml, data_dir: two}\n")
    assert evaluate(sums_model, "--suite", "run.yaml", "--max-new-tokens", "4", "--data-dir", "one.yaml=one") == 0
    assert [source["data_dir"] for source in report()["start"]["made_with"]["sources"]] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data-dir", "one", "--data-dir", "two"], "--data-dir is given 2 times; say which is of which data set, such as"),
        (["--data-dir", "one.yaml=one", "--data-dir", "one.yaml=two"], "gives one.yaml two folders, one and two"),
        (["--data-dir", "on.yaml=one"], "expected FOLDER or NAME=FOLDER of a data set; did you mean 'one.yaml'?"),
        (["--data-dir", "one.yaml="], "--data-dir one.yaml=: expected FOLDER or NAME=FOLDER"),
        (["--data-dir", "one.yaml=nowhere"], "nowhere"),
    ],
)
def test_what_does_not_say_which_is_refused(
    arguments: list[str], message: str, sets: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(sums_model, "--data", "one.yaml", "--data", "two.yaml", *arguments) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error


def test_a_folder_of_nothing_is_refused(sets: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(sums_model, "--env", "units", "--data-dir", "one") == 2
    assert "--data-dir one: no data set is read; give --data, or leave it out" in capsys.readouterr().err
