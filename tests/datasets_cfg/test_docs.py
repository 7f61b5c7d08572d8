"""The walk-through of docs/datasets.md: a newcomer adds a data set with one YAML. Its lines are run as they stand."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from verigym.cli import main
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.datasets_cfg.suites import Suite
from verigym.trainer.config.run import build_config
from verigym.trainer.tasks.mixture import build_source

PAGE = (Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\w+) -->\n```\w*\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/rows.jsonl").write_text(EXAMPLES["rows"], encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(EXAMPLES["yaml"], encoding="utf-8")
    return tmp_path


def test_a_newcomer_adds_a_data_set_with_one_file(folder, capsys):
    commands = EXAMPLES["commands"].splitlines()
    assert len(commands) == 4 and all(command.startswith("verigym ") for command in commands)
    shown = []
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
        shown.append(capsys.readouterr().out)
    assert "2 of 2 golds score the maximum" in shown[0]
    assert "Raisonne étape par étape" in shown[1] and "[its score] 1.0 correct" in shown[1]
    assert shown[1].count("[assistant]") == 1
    assert "sha256" in (folder / "mine.yaml").read_text(encoding="utf-8")
    assert "1 of 1 golds score the maximum" in shown[3]
    source = re.search(r"A run then says `(sources: .*?)`\.", PAGE)
    config = build_config({"model": "m", "output": "o", **yaml.safe_load(source[1])}, "docs")
    assert {build_source(config.sources[0], 0, 1).train(index).references["math"].answer for index in range(2)} == {"12", "4.5"}


def test_the_mistake_that_the_page_shows_is_real(folder, capsys):
    text = EXAMPLES["yaml"].replace("licence:", "license:")
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    assert main(["datasets", "show", "mine.yaml"]) == 2
    error = capsys.readouterr().err.strip().removeprefix("error: ")
    told = re.search(r"`(mine\.yaml:3: .*?)`", PAGE)
    assert error.startswith(told[1])


def test_the_suite_that_the_page_shows_is_one():
    (text,) = re.findall(r"```yaml\n(name: mine\ndescription: Word problems.*?)```", PAGE, re.DOTALL)
    Suite.model_validate(yaml.safe_load(text)).fields()


def test_the_table_of_fields_has_each_and_tells_which_are_required():
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", PAGE.split("| field | needed |")[1].split("\n\n")[0], re.MULTILINE)
    named = {name for row in rows for cell in row for name in re.findall(r"`(\w+)`", cell)}
    assert set(DatasetConfig.model_fields) <= named
    always = {name for fields, needed in rows if needed == "always" for name in re.findall(r"`(\w+)`", fields)}
    assert always == {name for name, field in DatasetConfig.model_fields.items() if field.is_required()}
