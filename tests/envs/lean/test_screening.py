"""A screen may reject and never accepts; some of what it rejects is judged afresh, and a disagreement turns it off. The stages
give canned verdicts here.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from needs import lack, lacking

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.backends.comparator import confirmed, project_files
from verigym.envs.lean.backends.dojo import DojoOptions, DojoScreen, task_in_file
from verigym.envs.lean.backends.interact import InteractOptions, InteractScreen
from verigym.envs.lean.options import LeanOptions
from verigym.envs.lean.screening import SCREENS, Screening, open_screen
from verigym.envs.lean.task import LeanReference
from verigym.envs.lean.toolchain import Toolchain
from verigym.envs.lean.verdict import LeanVerdict

SLOT = LeanReference(name="target", statement="theorem target : 1 + 1 = 2")
FILE = SLOT.model_copy(update={"mode": "file"})
TOOLCHAIN = Toolchain("/bin/sh", "4.0.0", "")


class Stages:
    """Accept what says so, reject the rest."""

    title = "Lean 4.28.0"
    box: Any = type("Box", (), {"toolchain": TOOLCHAIN})

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, reference: LeanReference, submission: str) -> LeanVerdict:
        self.asked.append(submission)
        return LeanVerdict("ACCEPT") if submission.startswith("good") else LeanVerdict("REJECT", ("error",))


class Screen:
    """Rejects what holds `suspicious`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = False

    def reject(self, reference: LeanReference, submission: str) -> str | None:
        self.asked.append(submission)
        return "error: looks wrong" if "suspicious" in submission else None

    def close(self) -> None:
        self.closed = True


def screening(**options: Any) -> tuple[Screening, Stages, Screen]:
    stages, screen = Stages(), Screen()
    return Screening(LeanOptions(backend="repl", **options), stages, screen), stages, screen


def test_what_the_screen_passes_is_judged_and_what_it_rejects_is_not() -> None:
    made, stages, screen = screening(recheck_share=0.0)
    assert made.verdict(SLOT, "good").label == "ACCEPT"
    assert made.verdict(SLOT, "bad").label == "REJECT/error"
    refused = made.verdict(SLOT, "good but suspicious")
    assert (refused.label, refused.detail) == ("REJECT/error", "looks wrong")
    assert stages.asked == ["good", "bad"] and len(screen.asked) == 3


def test_files_are_not_screened() -> None:
    made, stages, screen = screening()
    assert made.verdict(FILE, "good but suspicious").label == "ACCEPT"
    assert not screen.asked and stages.asked


def test_the_share_that_is_judged_afresh_is_kept_and_keyed() -> None:
    made, stages, _ = screening(recheck_share=0.1)
    for number in range(1000):
        made.verdict(SLOT, f"suspicious {number}")
    assert 60 <= len(stages.asked) <= 140
    again, other, _ = screening(recheck_share=0.1)
    for number in reversed(range(1000)):
        again.verdict(SLOT, f"suspicious {number}")
    assert sorted(other.asked) == sorted(stages.asked)


def test_a_disagreement_sounds_the_alarm_and_turns_the_screen_off(caplog: pytest.LogCaptureFixture) -> None:
    made, _, screen = screening(recheck_share=1.0)
    with caplog.at_level(logging.ERROR, "verigym.lean"):
        assert made.verdict(SLOT, "good but suspicious").label == "ACCEPT"
    assert made.alarms == 1 and screen.closed
    assert "repl screen rejected (error: looks wrong) a proof that Lean accepts; it is off" in caplog.text
    assert made.verdict(SLOT, "good and suspicious again").label == "ACCEPT"
    assert len(screen.asked) == 1


def test_every_screen_is_there_and_names_its_options() -> None:
    import importlib

    assert open_screen(LeanOptions(), Stages()) is None  # type: ignore[arg-type]
    for place in SCREENS.values():
        module, _, name = place.partition(":")
        assert getattr(importlib.import_module(module), name).options_type.model_fields
    with pytest.raises(EnvironmentFailure, match="backend_options of 'repl': field 'program' is missing"):
        open_screen(LeanOptions(backend="repl"), Stages())  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailure, match="backend_options of 'kimina': unknown field 'urll'; did you mean 'url'"):
        open_screen(LeanOptions(backend="kimina", backend_options={"urll": "x"}), Stages())  # type: ignore[arg-type]


def test_what_runs_outside_the_sandbox_has_to_be_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentFailure, match="interact runs Lean outside the sandbox; set unsandboxed=true"):
        InteractScreen(TOOLCHAIN, InteractOptions())
    told: dict[str, Any] = {"url": "https://example.org/r", "commit": "0123456", "files": {"target": "A.lean"}}
    with pytest.raises(EnvironmentFailure, match="dojo runs Lean outside the sandbox; set unsandboxed=true"):
        DojoScreen(TOOLCHAIN, DojoOptions(**told))
    monkeypatch.setitem(sys.modules, "lean_interact", None)
    with pytest.raises(EnvironmentFailure, match="pip install 'verigym.lean.'"):
        InteractScreen(TOOLCHAIN, InteractOptions(unsandboxed=True))


@lacking("elsewhere", sys.version_info >= (3, 13), "lean-dojo has no release for this Python")
def test_a_missing_lean_dojo_is_our_failure() -> None:
    import importlib.util

    if importlib.util.find_spec("lean_dojo"):
        lack("elsewhere", "lean-dojo is installed")
    told: dict[str, Any] = {"url": "https://example.org/r", "commit": "0123456", "files": {"target": "A.lean"}}
    screen = DojoScreen(TOOLCHAIN, DojoOptions(unsandboxed=True, **told))
    with pytest.raises(EnvironmentFailure, match="backend dojo needs pip install"):
        screen.reject(SLOT, "rfl")
    assert screen.reject(SLOT.model_copy(update={"name": "unknown"}), "rfl") is None


def test_a_theorem_inside_a_file_becomes_a_task() -> None:
    before = "import Mathlib\nnamespace A\ndef two := 2\ntheorem first : two = 2 := rfl\n"
    source = f"{before}theorem second : 1 = 1 := by\n  rfl\nend A\n"
    fields = task_in_file(source, 6)
    made = LeanReference(**fields)
    assert (made.name, made.statement) == ("A.second", "theorem second : 1 = 1")
    assert "theorem first" in made.header and made.header.startswith("import Mathlib")


def test_the_comparator_is_tried_before_it_is_believed(tmp_path: Any) -> None:
    options = LeanOptions(comparator=str(tmp_path / "absent"))
    with pytest.raises(EnvironmentFailure, match="no comparator at .*landrun. and .lean4export"):
        confirmed(options, TOOLCHAIN, SLOT, "rfl", LeanVerdict("ACCEPT"))
    files = project_files("", SLOT, "rfl")
    assert files["Challenge.lean"].endswith(":= by sorry\n") and files["Solution.lean"].endswith(":=\nrfl\n")
    assert '"theorem_names": ["target"]' in files["config.json"]
