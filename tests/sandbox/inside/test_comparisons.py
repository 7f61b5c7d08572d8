"""What is accepted of a program's values is accepted by plain Python, and no object or empty value equals what it is not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))

import comparisons
import pytest


@pytest.mark.parametrize(
    ("of", "at_least"), [pytest.param(1, 50_000, marks=pytest.mark.slow, id="all"), pytest.param(6, 8_000, id="a sixth")]
)
@pytest.mark.slow
def test_nothing_is_accepted_beyond_plain_python(of: int, at_least: int) -> None:
    """All values of the table under all claims, and under every sixth."""
    pairs, beyond, fooled = comparisons.run("suite", 0, of)
    assert pairs > at_least
    assert (beyond, fooled) == ([], [])
