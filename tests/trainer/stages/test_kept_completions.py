"""Completions that are kept one by one: they come back as they were, and a file with other settings begins anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from verigym.trainer.engines.base import Generated, Thought
from verigym.trainer.stages.kept_completions import KeptCompletions

ONE = Generated((5, 6), (-0.1, -1e-17), "stop")
OTHER = Generated((7,), (-0.30000000000000004,), "length", (True,), Thought(3, True, 1), ((0, 1),), 4)


def test_they_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with KeptCompletions(path, "a") as kept:
        kept.add(("eval", 0, 1), ONE)
        kept.add(("eval", 0, 2), OTHER)
    with KeptCompletions(path, "a") as kept:
        assert (kept.get(("eval", 0, 1)), kept.get(("eval", 0, 2)), kept.get(("eval", 0, 3))) == (ONE, OTHER, None)


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with KeptCompletions(path, "a") as kept:
        kept.add((1,), ONE)
        kept.add((2,), OTHER)
    path.write_bytes(path.read_bytes()[:-9])
    with KeptCompletions(path, "a") as kept:
        assert list(kept.found.values()) == [ONE]
        kept.add((3,), OTHER)
    with KeptCompletions(path, "a") as kept:
        assert list(kept.found.values()) == [ONE, OTHER]


def test_other_settings_begin_anew_and_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with KeptCompletions(tmp_path / "kept", "a") as kept:
        kept.add((1,), ONE)
    with KeptCompletions(tmp_path / "kept", "b") as kept:
        assert not kept.found
    assert caplog.messages == ["kept: 1 completions were sampled with other settings and are dropped"]
    assert not (tmp_path / "kept").exists(), "nothing is kept, so there is no file"


def test_what_is_in_another_file_is_dropped(tmp_path: Path) -> None:
    with KeptCompletions(tmp_path / "kept", "a") as kept:
        kept.add((1,), ONE)
        kept.clear()
        kept.add((2,), OTHER)
    with KeptCompletions(tmp_path / "kept", "a") as kept:
        assert list(kept.found.values()) == [OTHER]
