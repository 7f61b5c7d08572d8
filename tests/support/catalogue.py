"""The tests that docs/reliability.md names: the only list of those with the marker `chaos`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reliability.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def named() -> frozenset[tuple[str, str]]:
    """Return (file below the root, function) of each test that the page names."""
    return frozenset(_NAMED.findall(PAGE.read_text(encoding="utf-8")))
