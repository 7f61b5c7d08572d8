"""The run's page: real curves, and completions shown as text, whatever markup they hold."""

from __future__ import annotations

import struct
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from groups import RIGHT, UNSCORED, WRONG, group
from matplotlib.figure import Figure

from verigym.envs import Completion, Score, Status, Turn
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.monitoring import report
from verigym.trainer.monitoring.detectors import Alarm
from verigym.trainer.monitoring.logs import RunLog
from verigym.trainer.monitoring.report import write_report

ATTACK = "<script>alert('1')</script><img src=x onerror=alert(2)>\"'&amp; {{ 7*7 }} {% raw %} \ud800 </td></table>"


PARTS = Score(
    reward=0.5,
    status=Status.PARTIAL,
    components={"format": 1.0, "format/tags": 1.0, "bonus": None},
    reason="half",
)


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
        rows = [[TrainingRow((1,), (2,), -0.75 * step, True)]]
        log.samples(step, "train", [group("a", [PARTS], text=f"training {step}")], 1, rows)
    log.event(Alarm("length", 3, 2, "it was seen <here>", "do this").row)
    log.close()
    return tmp_path


def size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the picture out."""
    monkeypatch.setattr(report, "_draw", lambda path, panels: path.write_bytes(b""))


@pytest.mark.slow
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


@pytest.mark.usefixtures("undrawn")
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
    assert "training 4" in text
    assert '<td class="correct">correct</td>' in text
    assert '<td class="error">error</td>' in text
    assert '<td class="other">incorrect</td>' in text


def test_an_episode_is_shown_turn_by_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, dict[str, list[tuple[int, float]]]] = {}
    monkeypatch.setattr(report, "_draw", lambda path, panels: drawn.update(panels))
    turns = (
        Turn(role="assistant", text=f"I ask. {ATTACK}", reward=0.5),
        Turn(role="tool", name="calculator", text="<b>1517</b>"),
        Turn(role="assistant", text="It is 1517."),
    )
    played = Completion(text="It is 1517.", turns=turns, finish_reason="stop")
    log = RunLog(tmp_path, None, ())
    log.samples(1, "train", [replace(group("tools", [RIGHT]), episodes=(played,))], 1)
    log.metrics(1, "train", {"reward": 1.0, "tools/turns": 2.0, "tools/malformed_calls": 0.25})
    log.close()
    page = Page(write_report(tmp_path, "episodes", [])[1].read_text(encoding="utf-8"))
    (cell,) = (cell for cell in page.cells if "It is 1517." in cell)
    places = [cell.index(part) for part in ("assistant", "I ask. <script>", "+0.5", "calculator", "<b>1517</b>", "It is 1517.")]
    assert places == sorted(places) and "script" not in page.tags
    assert drawn["turns of an episode"] == {"tools": [(1, 2.0)]} and drawn["malformed calls, share"] == {"tools": [(1, 0.25)]}


@pytest.mark.usefixtures("undrawn")
def test_markup_of_a_completion_stays_text(output: Path) -> None:
    _, path = write_report(output, "run", [])
    page = Page(path.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert page.tags.count("img") == 1
    assert page.cells.count(ATTACK.replace("\ud800", "?")) == 2, "as prompt and as completion"
    assert page.tags.count("table") == 3, "two evaluations, and the end of training"


@pytest.mark.usefixtures("undrawn")
def test_the_end_of_training_is_shown_with_rewards_components_and_advantages(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "TRAINING_SAMPLES", 2)
    _, path = write_report(output, "run", [])
    text = path.read_text(encoding="utf-8")
    assert "training 2" not in text
    assert text.index("training 3") < text.index("training 4")
    cells = [" ".join(cell.split()) for cell in Page(text).cells]
    at = cells.index("training 4")
    assert cells[at + 3 : at + 7] == ["partial", "0.5format 1format/tags 1bonus none", "-3", "half"]
    assert "Step 3, length: it was seen &lt;here&gt;, since step\n2; do this." in text


def test_no_legend_covers_a_line(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **kwargs: figures.append(self))
    for step in range(5, 60):
        log = RunLog(output, step - 1)
        log.metrics(step, "train", {f"source number {n}/reward": n / 9 for n in range(9)} | {"reward": 0.5})
        log.close()
    write_report(output, "run", [])
    (figure,) = figures
    figure.canvas.draw()
    legends = [legend for axis in figure.axes if (legend := axis.get_legend())]
    assert len(legends) == 2, "accuracy and reward by source"
    for legend in legends:
        assert not any(legend.get_window_extent().overlaps(axis.get_window_extent()) for axis in figure.axes)


def test_components_and_sources_have_curves(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, dict[str, list[tuple[int, float]]]]] = []
    monkeypatch.setattr(report, "_draw", lambda path, panels: drawn.append(panels))
    log = RunLog(output, 4)
    log.metrics(5, "train", {"reward": 0.5, "a/reward": 0.25, "a/format": 1.0, "sampled_nll": 2.0})
    log.close()
    write_report(output, "run", [])
    (panels,) = drawn
    assert set(panels["held-out accuracy"]) == {"all sources", "a"}
    assert panels["training reward (mean of 10 steps)"]["a"] == [(5, 0.25)]
    assert panels["sampled NLL, nats a token"]["all sources"] == [(5, 2.0)]
    assert panels["components of the reward (mean of 10 steps)"] == {"a/bonus": [], "a/format": [(5, 1.0)]}
