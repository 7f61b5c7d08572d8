"""Fixtures of the sessions' tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from session_envs import TalkEnvironment

from verigym.envs.sessions import Sessions


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses, for workers too."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    tempfile.tempdir = None


@pytest.fixture(scope="session")
def warm() -> None:
    """What multiprocessing starts once and keeps has been started."""
    with Sessions({"talk": TalkEnvironment()}, workers=1) as sessions:
        sessions.start()
