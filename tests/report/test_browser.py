"""The page in headless Chromium: charts, filters, search, details, narrow and dark screens, 100,000 samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Page, chromium
from needs import needs
from report_inputs import make_evaluation, make_run, run_sample, write_lines

from verigym.cli import main
from verigym.report.build import build_report
from verigym.report.reading.inputs import find_inputs

pytestmark = [needs("chromium"), pytest.mark.slow]
MANY = 100_000


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as one:
        one.size(1300, 900)
        yield one


@pytest.fixture(scope="module")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; the first one's samples have an answer, scored steps, turns of tools."""
    folder = tmp_path_factory.mktemp("runs")
    first, other = make_run(folder / "one", steps=8), make_run(folder / "two", steps=5)
    steps = [
        {"start": 0, "end": 2, "reward": 1.0, "reason": "fine", "part": ""},
        {"start": 3, "end": 5, "reward": -1.0, "reason": "bad", "part": ""},
    ]
    call = {"name": "look", "arguments": {"place": "here"}, "raw": "", "fault": None}
    turns = [
        {"role": "assistant", "text": "I look.", "calls": [call], "reward": 0.5},
        {"role": "tool", "text": "It is 9.", "name": "look"},
    ]
    turns.append({"role": "assistant", "text": "So it is 9"})
    samples = [
        run_sample(
            1, completion="9 or 9, so 9.", answer="9", advantage=-0.5, status="incorrect", reward=0.0, reason="of another kind"
        ),
        run_sample(
            2,
            completion="It is so.",
            answer=None,
            steps=steps,
            source="words",
            status="no_answer",
            reward=0.0,
            prompt="unlike\u200bothers",
        ),
        run_sample(3, completion="So it is 9", turns=turns, advantage=1.5, finish_reason="turns", metadata={"level": "hard"}),
        run_sample(4, status="error", reward=None, answer=None, reason="the grader is down"),
    ]
    write_lines(first / "samples.jsonl", samples)
    path = folder / "report.html"
    build_report(find_inputs([str(first), str(other)]), path)
    return path


def open_tab(page: Page, path: Path, tab: str) -> None:
    page.open(path, tab)
    page.until(f"document.getElementById('main').className === 'tab-{tab}'")
    if tab == "samples":
        page.until("!!document.querySelector('.side .text')")


def choose(page: Page, label: str, value: str) -> None:
    page.enter(f"select[aria-label='{label}']", value, "change")


STATUS = "document.querySelector('[role=status]').textContent"


def rows(page: Page) -> list[str]:
    found: list[str] = page.run(
        "[...document.querySelectorAll('.sample-row')].map((one) => one.innerText.replaceAll('\\n', ' '))"
    )
    return found


def until_rows(page: Page, count: int) -> list[str]:
    page.until(f"document.querySelectorAll('.sample-row').length === {count}")
    return rows(page)


def test_every_chart_is_drawn_and_follows_the_cursor(page: Page, run_page: Path) -> None:
    open_tab(page, run_page, "curves")
    figures = page.until("document.querySelectorAll('.figure').length")
    assert page.until("document.querySelectorAll('canvas').length") == figures >= 10
    first = "document.querySelectorAll('.figure')[1]"
    assert page.run(f"{first}.querySelector('.chart-title').textContent") == "Reward"
    before = page.run(f"{first}.querySelector('.legend').innerText")
    box = page.run(
        f"(({{ x, y, width, height }}) => [x, y, width, height])({first}.querySelector('.u-over').getBoundingClientRect())"
    )
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + 4, y=box[1] + box[3] / 2)
    page.until(f"{first}.querySelector('.where').textContent.includes('step 1')")
    assert page.run(f"{first}.querySelector('.legend').innerText") != before
    choose(page, "Environments", "words")
    page.until(f"{first}.innerText.includes('words')")
    page.enter("input[type=range]", 5)
    assert page.until("document.querySelector('output').textContent") == "over 5 steps"
    choose(page, "Any metric", "train: step_s")
    page.until("[...document.querySelectorAll('.chart-title')].some((one) => one.textContent === 'step_s')")
    assert page.of("Runtime.exceptionThrown") == []


def test_filters_orders_and_search(page: Page, run_page: Path) -> None:
    open_tab(page, run_page, "samples")
    until_rows(page, 10)
    choose(page, "Input", "0")
    until_rows(page, 4)
    choose(page, "Order", "advantage")
    page.until("document.querySelector('.sample-row').innerText.includes('+1.50')")
    choose(page, "Order", "reward-low")
    page.until("document.querySelector('.sample-row').innerText.includes('incorrect')")
    assert "unscored" in rows(page)[-1]  # what has no reward stands last either way
    choose(page, "Verdict", "3")
    assert "no answer" in until_rows(page, 1)[0]
    choose(page, "Verdict", "")
    for words, count in (("ANOTHER kind", 1), ("place", 1), ("absent", 0)):
        page.enter("input[type=search]", words)
        page.until(f"{STATUS}.startsWith('{count} hit')")
        until_rows(page, count)
    assert page.run("document.querySelector('.empty').textContent").startswith("No sample fits")


def detail_of(page: Page, words: str) -> str:
    page.run(
        f"[...document.querySelectorAll('.sample-row')].find((one) => one.innerText.includes({json.dumps(words)})).click()"
    )
    page.until("document.querySelector('.sample-row.open') && true")
    found: str = page.until(
        f"document.querySelector('.side').innerText.includes({json.dumps(words)}) && document.querySelector('.side').innerText"
    )
    return found


def test_a_sample_in_full(page: Page, run_page: Path) -> None:
    open_tab(page, run_page, "samples")
    text = detail_of(page, "9 or 9")
    assert "of another kind" in text and "\u22120.500" in text
    assert page.run("[...document.querySelectorAll('mark.answer')].map((one) => one.textContent)") == ["9"]
    assert page.run("document.querySelector('mark.answer').previousSibling.textContent") == "9 or 9, so "  # the last one
    detail_of(page, "It is so.")
    assert page.run("[...document.querySelectorAll('mark.step')].map((one) => [one.textContent, one.className])") == [
        ["It", "step good"],
        ["is", "step bad"],
    ]
    assert page.run("document.querySelector('.hidden-char').textContent") == "U+200B"
    text = detail_of(page, "So it is 9")
    assert "tool: look" in text and '{"place": "here"}' in text and "+0.50" in text and "hard" in text


def test_narrow_screens_do_not_scroll_sideways(page: Page, run_page: Path) -> None:
    page.size(390, 844)
    try:
        for tab in ("overview", "curves", "samples", "compare"):
            open_tab(page, run_page, tab)
            assert page.run("document.documentElement.scrollWidth") == 390, tab
        open_tab(page, run_page, "samples")
        assert page.run("getComputedStyle(document.querySelector('.side')).display") == "none"
        page.run("document.querySelector('.sample-row').click()")
        page.until("getComputedStyle(document.querySelector('.side')).position === 'fixed'")
        page.run("document.querySelector('.close').click()")
        assert page.run("getComputedStyle(document.querySelector('.side')).display") == "none"
    finally:
        page.size(1300, 900)


def test_light_dark_and_the_choice_of_either(page: Page, run_page: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    open_tab(page, run_page, "curves")
    light = page.run(ground)
    page.size(1300, 900, dark=True)
    dark = page.until(f"{ground} !== {json.dumps(light)} && {ground}")
    page.run("document.getElementById('theme').click()")
    assert page.run("document.documentElement.dataset.theme") == "light" and page.run(ground) == light
    page.run("document.getElementById('theme').click()")
    assert page.run(ground) == dark
    page.run("document.getElementById('theme').click()")
    page.size(1300, 900)
    assert page.of("Runtime.exceptionThrown") == []


def test_graders_are_compared(page: Page, tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "in.jsonl", [{"prompt": "1+1?", "answer": "2", "completions": ["\\boxed{2}", "\\boxed{2.1}", "none"]}]
    )
    for name, tolerance in (("strict", "0"), ("lax", "0.5")):
        main(
            [
                "grade",
                str(data),
                "--env",
                "math",
                "--option",
                f"tolerance={tolerance}",
                "--out",
                str(tmp_path / f"{name}.jsonl"),
                "--workers",
                "0",
            ]
        )
    path = tmp_path / "page.html"
    build_report(find_inputs([str(tmp_path / "strict.jsonl"), str(tmp_path / "lax.jsonl")]), path)
    open_tab(page, path, "overview")
    found = page.run("[...document.querySelectorAll('.findings .bad')].map((one) => one.innerText)")
    assert found == ["lax and strict on the same 3 completions: they disagree on whether 1 of 3 are right."]
    open_tab(page, path, "compare")
    text = page.run("document.getElementById('main').innerText")
    assert "agree on whether they are right in 66.67% (1 disagreements)" in text
    page.run("[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('Show where')).click()")
    assert all("2.1" in row for row in until_rows(page, 2))


def test_pages_with_nothing_in_them(page: Page, tmp_path: Path) -> None:
    write_lines(tmp_path / "run/metrics.jsonl", [])
    build_report(find_inputs([str(tmp_path / "run")]), tmp_path / "page.html")
    for tab, words in (("overview", "No verdicts are logged yet."), ("samples", "There are no samples")):
        open_tab(page, tmp_path / "page.html", tab) if tab == "overview" else page.open(tmp_path / "page.html", tab)
        page.until(f"document.body.innerText.includes({json.dumps(words)})")
    assert page.of("Runtime.exceptionThrown") == []


def test_a_hundred_thousand_samples_stay_usable(page: Page, tmp_path: Path) -> None:
    prompts = [["correct" if (number + place) % 3 else "incorrect" for place in range(8)] for number in range(MANY // 8)]
    path = tmp_path / "page.html"
    built = build_report(find_inputs([str(make_evaluation(tmp_path / "eval", {"m": prompts}))]), path)
    assert built.shown == MANY
    page.send("Performance.enable")
    page.send("Page.navigate", url="about:blank")
    before = worked_s(page)
    page.open(path, "samples")
    until_rows(page, 50)
    assert worked_s(page) - before < 2.0
    assert "100,000 of 100,000" in page.run(STATUS)
    choose(page, "Order", "surprise")
    choose(page, "Verdict", "2")
    page.until(f"{STATUS}.includes('of 100,000 samples') && !{STATUS}.startsWith('100,000')")
    page.enter("input[type=search]", "1+12499?")
    page.until(f"{STATUS}.includes('hits in')")
    found = rows(page)
    assert all("1+12499?" in row for row in found) and 2 <= len(found) <= 3


def worked_s(page: Page) -> float:
    """Seconds of the page's own work: a busy machine lengthens them less than the wait for them."""
    metrics = {one["name"]: one["value"] for one in page.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])
