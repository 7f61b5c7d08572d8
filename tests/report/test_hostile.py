"""Texts that models, data and logs may hold stay texts: in headless Chromium none of them runs, loads or changes the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chromium import Page, chromium
from needs import needs
from report_inputs import hostile_evaluation, hostile_run

from verigym.report.build import ReportOptions, build_report
from verigym.report.page import data_block
from verigym.report.reading.inputs import find_inputs

TEXTS = [json.loads(line)["text"] for line in (Path(__file__).parent / "hostile_texts.jsonl").read_text().splitlines()]
INERT = """
(() => {
  const elements = [...document.querySelectorAll("*")];
  return {
    pwned: window.pwned === undefined,
    scripts: [...document.scripts].filter((one) => one.type === "").length,
    styles: document.querySelectorAll("style").length,
    foreign: document.querySelectorAll("img, iframe, svg, math, object, embed, link, base, form, a, audio, video").length,
    metas: document.querySelectorAll("meta").length,
    handlers: elements.flatMap((one) => one.getAttributeNames()).filter((name) => name.startsWith("on")).length,
    polluted: ({}).pwned !== undefined || ({}).label !== undefined,
  };
})()
"""
CLEAN = {"pwned": True, "scripts": 1, "styles": 1, "foreign": 0, "metas": 5, "handlers": 0, "polluted": False}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    inputs = find_inputs([str(hostile_run(folder / "run", TEXTS)), str(hostile_evaluation(folder / "eval", TEXTS))])
    inputs += find_inputs([str(hostile_run(folder / "other", TEXTS))])
    for place, one in enumerate(inputs):
        one.label, one.notes = TEXTS[place + 1], [*one.notes, *TEXTS]
    path = folder / "report.html"
    build_report(inputs, path, ReportOptions(title=TEXTS[1] + TEXTS[4]))
    return path


def test_the_panel_is_as_large_as_promised() -> None:
    assert len(set(TEXTS)) >= 30


def test_the_file_itself_holds_no_markup_of_theirs(report: Path) -> None:
    page = report.read_text(encoding="ascii")
    body = page[page.index("</title>") :]
    assert "window.pwned" in body  # in the JSON, as text
    for markup in ("<img", "<svg", "<iframe", "onerror=window.pwned=1>", "</script><script>window", "<!--<script"):
        assert markup not in page, markup
    assert page.count("<script>") == 1


def test_data_that_would_end_its_block_is_escaped() -> None:
    escaped = data_block({"</script><!--<script>": "\u2028&]]>"})
    assert not set("<>&\u2028") & set(escaped)
    assert json.loads(escaped) == {"</script><!--<script>": "\u2028&]]>"}


def opened(page: Page, report: Path) -> None:
    page.size(1300, 900)
    page.open(report, "overview")
    page.until("!!document.querySelector('table')")


@needs("chromium")
@pytest.mark.slow
def test_nothing_runs_loads_or_appears_in_any_part_of_the_page(report: Path) -> None:
    with chromium() as page:
        opened(page, report)
        for tab in ("overview", "curves", "compare", "samples"):
            page.run(f"document.querySelector('[data-tab={tab}]').click()")
            page.until("!document.body.innerText.includes('unpacking')")
            assert page.run(INERT) == CLEAN, tab
        page.until("document.querySelectorAll('.sample-row').length > 0")
        shown = every_sample(page)
        assert shown == 2 * 2 * len(TEXTS) + 2 * len(TEXTS)
        search(page, TEXTS[1])
        assert page.run(INERT) == CLEAN, "after a search"
        hover_everything(page)
        assert page.run(INERT) == CLEAN, "after hovering"
        assert page.of("Page.javascriptDialogOpening") == []
        assert page.of("Runtime.exceptionThrown") == []
        urls = {event["request"]["url"].partition("#")[0] for event in page.of("Network.requestWillBeSent")}
        assert urls <= {report.resolve().as_uri(), "about:blank"}
        assert page.run("location.href").startswith(report.resolve().as_uri())


@needs("chromium")
@pytest.mark.slow
def test_what_is_shown_is_the_text_itself(report: Path) -> None:
    with chromium() as page:
        opened(page, report)
        page.run("location.hash = 'samples'")
        page.until("document.querySelectorAll('.side .text').length > 0")
        texts = page.run("[...document.querySelectorAll('.side .text')].map((one) => one.textContent)")
        assert TEXTS[0] in texts and f"{TEXTS[0]} {TEXTS[0]}" in texts
        # What cannot be seen, or turns others around, stands as its code.
        search(page, "gro.live")
        page.until("document.querySelector('.side .text').textContent.includes('gro.live')")
        assert page.run("document.querySelector('.side .text').textContent").startswith("U+202EU+2066gro.live")


@needs("chromium")
@pytest.mark.slow
def test_the_policy_stops_what_the_page_itself_would_never_do(report: Path) -> None:
    """The second wall: even markup that got in could neither run nor load."""
    attack = """
    (async () => {
      const markup = "<img src=x onerror='window.pwned=1'><iframe srcdoc='<script>parent.pwned=1</script>'></iframe>";
      document.body.insertAdjacentHTML("beforeend", markup);
      const script = document.createElement("script"); script.textContent = "window.pwned = 1"; document.body.append(script);
      const style = document.createElement("style"); style.textContent = "main { display: none }"; document.body.append(style);
      const fetched = await fetch("data:text/plain,x").then(() => "fetched", () => "refused");
      await new Promise((resolve) => setTimeout(resolve, 300));
      let evaluated = "refused";
      try { evaluated = window.eval("'ran'"); } catch { evaluated = "refused"; }
      return [window.pwned === undefined, fetched, evaluated, getComputedStyle(document.querySelector("main")).display];
    })()
    """
    with chromium() as page:
        opened(page, report)
        assert page.run(attack) == [True, "refused", "refused", "block"]


def every_sample(page: Page) -> int:
    """Open each sample of the list, page after page, and return how many."""
    script = """
    (async () => {
      const pause = () => new Promise((resolve) => setTimeout(resolve));
      let seen = 0;
      for (;;) {
        const rows = [...document.querySelectorAll(".sample-row")];
        for (const row of rows) {
          row.click();
          for (let n = 0; n < 500 && !row.classList.contains("open"); n += 1) await pause();
          await pause();
          seen += 1;
          for (const one of document.querySelectorAll("details")) one.open = true;
        }
        const next = document.querySelector(".pager [title='next page']");
        if (!next || next.disabled) return seen;
        next.click();
        for (let n = 0; n < 5000 && document.querySelector(".sample-row") === rows[0]; n += 1) await pause();
      }
    })()
    """
    found: int = page.run(script)
    return found


def search(page: Page, words: str) -> None:
    page.enter("input[type=search]", words)
    page.until("document.querySelector('[role=status]').textContent.includes('hit')")


def hover_everything(page: Page) -> Any:
    return page.run("""
    for (const one of document.querySelectorAll("main *")) {
      for (const kind of ["mouseover", "mousemove", "focus"]) one.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    """)
