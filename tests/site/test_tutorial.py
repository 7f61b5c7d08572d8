"""The tutorial from top to bottom, as a newcomer does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import Trl, blocks, run_page

from verigym.scaffold import make_package


@pytest.mark.slow
def test_the_tutorial_runs_as_it_stands_and_its_model_learns(tmp_path: Path, trl: Trl) -> None:
    run_page("tutorial.md", tmp_path, extra=trl.environment, leave_out=trl.leave_out)
    (report,) = tmp_path.glob("runs/held-out-*/report.json")
    models = json.loads(report.read_text())["models"]
    before, after = (models[name]["backwards"]["figures"]["avg@4"]["value"] for name in ("start", "rl"))
    assert 0.2 < before < after, (before, after)
    trl.require()


def test_every_block_of_the_tutorial_says_what_it_is() -> None:
    kinds = [block.kind for block in blocks("tutorial.md")]
    assert kinds.count("example") == 5 and kinds.count("not run") == 3


def test_the_parts_that_the_tutorial_shows_are_those_of_the_files(tmp_path: Path) -> None:
    _, _, written = make_package("backwards", "file", tmp_path)
    texts = [path.read_text() for path in written]
    parts = [block.text for block in blocks("tutorial.md") if block.language == "python"]
    assert len(parts) == 2 and parts[0] in texts[0]
    assert all(line.strip() in texts[2] for line in parts[1].splitlines())
