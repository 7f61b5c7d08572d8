"""What the tests of grading files share."""

from __future__ import annotations

from multiprocessing import util

import pytest
from warm_workers import AVAILABLE, WORKERS, spawnv_passfds, warm_python


@pytest.fixture(autouse=True)
def workers_start_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting Python and importing the environments is most of what a test with workers would take."""
    if AVAILABLE:
        warm_python(WORKERS)  # before a test looks at its children
        monkeypatch.setattr(util, "spawnv_passfds", spawnv_passfds)
