"""The site builds strictly, reaches every page, has no broken link and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from needs import require
from patience import HANG_S

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIG = ROOT / "mkdocs.yml"
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """Links, anchors and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.anchors.add(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value)
            if (tag, name) in LOADED:
                self.loaded.append(value)


def pages_of(nav: Any) -> Iterator[str]:
    for entry in nav.values() if isinstance(nav, dict) else nav:
        if isinstance(entry, str):
            yield entry
        else:
            yield from pages_of(entry)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """The pages of a strict build, by their files."""
    require("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        str(CONFIG),
        "--site-dir",
        str(folder),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html") if path.name != "404.html"}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(pages_of(yaml.safe_load(CONFIG.read_text())["nav"]))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == there, "list a new page in `nav` of mkdocs.yml, where its reader looks for it"


@pytest.mark.slow
def test_no_link_or_anchor_of_the_site_is_broken(site: dict[Path, Page]) -> None:
    broken = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            missing = not target.exists() or (anchor and target in site and anchor not in site[target].anchors)
            if missing and anchor != "__top":
                broken.append(f"{path.name}: {link}")
    assert not broken


@pytest.mark.slow
def test_a_page_loads_nothing_from_elsewhere(site: dict[Path, Page]) -> None:
    assert len(site) > 60
    assert [link for page in site.values() for link in page.loaded if urlsplit(link).netloc] == []


@pytest.mark.slow
def test_the_reference_has_what_the_package_exports(site: dict[Path, Page]) -> None:
    import verigym

    anchors = {
        anchor.rpartition(".")[2] for path, page in site.items() if path.parent.name == "reference" for anchor in page.anchors
    }
    assert set(verigym.__all__) <= anchors


def test_links_of_the_readme_lead_to_pages() -> None:
    links = re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text())
    assert links and [link for link in links if not (ROOT / link).is_file()] == []
