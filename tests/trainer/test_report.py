"""The run's page: real curves, and completions shown as text, whatever markup they hold."""

from __future__ import annotations

import struct
from html.parser import HTMLParser
from pathlib import Path

import pytest
from groups import RIGHT, UNSCORED, WRONG, group

from verigym.trainer.logs import RunLog
from verigym.trainer.report import write_report

ATTACK = "<script>alert('1')</script><img src=x onerror=alert(2)>\"'&amp; {{ 7*7 }} {% raw %} \ud800 </td></table>"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.inside = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += data


@pytest.fixture
def output(tmp_path: Path) -> Path:
    log = RunLog(tmp_path, None)
    for step in (0, 2, 4):
        log.metrics(step, "eval", {"a/accuracy": step / 4, "accuracy": step / 5})
        log.samples(step, "eval", [group("a", [RIGHT if step else WRONG], text=f"held out {step}")], 1)
    log.samples(4, "eval", [group("b", [UNSCORED], text=ATTACK)], 1)
    for step in range(1, 5):
        log.metrics(step, "train", {"completion_tokens": 9.0, **({"reward": 0.1 * step} if step != 2 else {})})
        log.samples(step, "train", [group("a", [RIGHT], text="only in training")], 1)
    log.close()
    return tmp_path


def size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_curves_are_a_picture_that_shows_something(output: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from matplotlib.image import imread

    curves, _ = write_report(output, "run", [])
    assert curves == output / "curves.png"
    width, height = size(curves)
    assert width > 1000 and height > 300
    empty = tmp_path_factory.mktemp("empty")
    RunLog(empty, None).close()
    blank, _ = write_report(empty, "run", [])
    assert (imread(curves) != imread(blank)).any(axis=-1).sum() > 1000


def test_the_first_and_the_last_evaluation_are_shown(output: Path) -> None:
    _, path = write_report(output, "a run <of> mine", [("gain & more", "<b>+0.3</b>")])
    text = path.read_text(encoding="utf-8")
    cells = Page(text).cells
    assert "<title>a run &lt;of&gt; mine</title>" in text
    assert cells[:2] == ["gain & more", "<b>+0.3</b>"]
    assert text.index("after step 4") < text.index("after step 0")
    assert "after step 2" not in text
    assert "held out 0" in cells and "held out 4" in cells
    assert "held out 2" not in text
    assert "only in training" not in text
    assert '<td class="correct">correct</td>' in text
    assert '<td class="error">error</td>' in text
    assert '<td class="other">incorrect</td>' in text


def test_markup_of_a_completion_stays_text(output: Path) -> None:
    _, path = write_report(output, "run", [])
    page = Page(path.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert page.tags.count("img") == 1
    assert page.cells.count(ATTACK.replace("\ud800", "?")) == 2, "as prompt and as completion"
    assert page.tags.count("table") == 2
