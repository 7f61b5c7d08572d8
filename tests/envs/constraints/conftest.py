"""Cases of the constraints environment, and the packages that some of them need."""

import json
from pathlib import Path

import pytest
from needs import require

CASES = Path(__file__).parents[2] / "cases"


def cases():
    """Return the rows of both case files."""
    lines = [line for name in ("ifeval", "ifbench") for line in (CASES / f"constraints_{name}.jsonl").read_text().splitlines()]
    return [json.loads(line) for line in lines]


@pytest.fixture
def extra():
    require("py3langid", "emoji", "syllapy")


@pytest.fixture(scope="session")
def rows():
    return cases()
