"""Puts the environments that tests define where worker processes can import them: they inherit `sys.path`."""

import sys
from multiprocessing import util
from pathlib import Path

import pytest
from warm_workers import AVAILABLE, WORKERS, spawnv_passfds, warm_python

_SUPPORT = str(Path(__file__).parent / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)


@pytest.fixture(autouse=True)
def workers_start_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting Python and importing the environments is most of what a test with workers would take."""
    if AVAILABLE:
        warm_python(WORKERS)  # before a test looks at its children
        monkeypatch.setattr(util, "spawnv_passfds", spawnv_passfds)
