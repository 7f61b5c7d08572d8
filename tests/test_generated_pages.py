"""The generated tables in docs/ say what the code says."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from verigym.exit_codes import ExitCode
from verigym.pages import PAGES, blocks
from verigym.pages.constraints import instructions
from verigym.pages.markdown import field_table, table

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_generated_parts(name: str) -> None:
    page = (DOCS / PAGES[name]).read_text(encoding="utf-8")
    for block in blocks(name):
        assert block in page, f"run `python -m verigym.pages {name}` and paste what it prints into docs/{PAGES[name]}"


def test_cells_cannot_break_a_table() -> None:
    assert table(("a", "b"), [("1 | 2", "two\n  lines")]) == "| a | b |\n|---|---|\n| 1 \\| 2 | two lines |"


def test_the_table_of_fields_shows_defaults_and_what_is_required() -> None:
    class Given(BaseModel):
        """Sample settings."""

        model_config = ConfigDict(use_attribute_docstrings=True)

        path: str
        """Where it is."""
        sizes: tuple[int, ...] = (1, 2)
        fast: bool = False
        end: str = "a\n"

    rows = field_table(Given).splitlines()
    assert rows[0] == "| field | default | what |"
    assert rows[2] == "| `path` | required | Where it is. |"
    assert [row.split(" | ")[1] for row in rows[3:]] == ["`[1, 2]`", "`false`", "`a\\n`"]


def test_every_instruction_is_listed() -> None:
    assert instructions("ifeval").count("\n") - 1 == 25 and instructions("ifbench").count("\n") - 1 == 58


def test_every_exit_code_has_a_meaning() -> None:
    assert all(code.meaning for code in ExitCode)
