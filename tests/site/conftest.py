"""Fixtures of the documentation's tests."""

from __future__ import annotations

import pytest
from pages import Trl


@pytest.fixture(scope="session")
def trl(tmp_path_factory: pytest.TempPathFactory) -> Trl:
    """TRL, installed once a process."""
    return Trl.installed(tmp_path_factory.mktemp("trl"))
