"""What is accepted of a program's values is accepted by plain Python, and no object or empty value equals what it is not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))

import comparisons


def test_nothing_is_accepted_beyond_plain_python() -> None:
    pairs, beyond, fooled = comparisons.run("suite", 0)
    assert pairs > 50_000
    assert (beyond, fooled) == ([], [])
