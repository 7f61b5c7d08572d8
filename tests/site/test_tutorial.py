"""The tutorial from top to bottom, as a newcomer does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import DOCS, Trl, blocks, run_page

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
    assert len(parts) == 2
    for part, text in zip(parts, (texts[0], texts[2]), strict=True):
        assert all(line.strip() in text for line in part.splitlines()), part


def test_the_tutorial_is_read_in_two_and_a_half_minutes() -> None:
    """Of its ten: at 250 words a minute, code and tables among them. Commands, typing and thinking take the rest."""
    assert len((DOCS / "tutorial.md").read_text().split()) <= 2.5 * 250
