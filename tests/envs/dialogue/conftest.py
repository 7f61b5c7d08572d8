"""Counts of requests under way live in files below the temporary folder: each test gets one of its own."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # for processes that a test starts
