"""The pages of the smaller environments list the options that the code has, with their defaults and words."""

from pathlib import Path

import pytest

from verigym.envs.code.environment import CodeOptions
from verigym.envs.registry import origin
from verigym.pages.markdown import field_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {name: "shaping" for name in ("length", "overlong", "repetition", "effort", "paragraphs")} | {
    name: name for name in ("format", "language", "match", "reasoning_gym")
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_every_option(name: str) -> None:
    page = (DOCS / f"{PAGES[name]}.md").read_text(encoding="utf-8")
    for model in (origin(name).options_type, origin(name).reference_type):
        for field, info in model.model_fields.items():
            words = " ".join((info.description or "").split()).replace("|", "\\|")
            rows = [line for line in page.splitlines() if line.startswith(f"| `{field}` |")]
            assert any(line.endswith(f"| {words} |") for line in rows), f"docs/{PAGES[name]}.md: {name}.{field}"


@pytest.mark.parametrize(
    ("name", "page"), [("number_guessing", "procedural"), ("treasure_rooms", "procedural"), ("code_with_feedback", "code")]
)
def test_the_page_has_the_options_of_episodes(name: str, page: str) -> None:
    options = origin(name).options_type
    fields = [field for field in options.model_fields if field not in CodeOptions.model_fields]
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert fields and all(row in text for row in field_table(options, fields, title="option").splitlines())
