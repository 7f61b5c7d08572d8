"""The pages of the smaller environments list the options that the code has, with their defaults and words."""

from pathlib import Path

import pytest

from verigym.envs.registry import origin

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
