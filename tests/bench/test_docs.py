"""docs/math.md says what the code does."""

from pathlib import Path

from verigym.bench.options import sections

PAGE = (Path(__file__).resolve().parents[2] / "docs/math.md").read_text(encoding="utf-8")


def test_the_tables_of_options_are_the_code_s_own():
    assert sections() in PAGE, "run `python -m verigym.bench.options` and paste the tables into docs/math.md"
