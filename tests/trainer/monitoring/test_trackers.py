"""Loggers by name. The `wandb` and `trackio` here are stand-ins that record their calls: they show what is sent, and cannot
show that the real services take it.
"""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from verigym.envs.contract.errors import UsageError
from verigym.trainer.monitoring.logs import RunLog
from verigym.trainer.monitoring.trackers import open_trackers, require_trackers


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def init(self, **arguments: Any) -> Recorder:
        self.calls.append(("init", arguments))
        return self

    def define_metric(self, name: str, step_metric: str) -> None:
        self.calls.append(("define_metric", (name, step_metric)))

    def log(self, values: dict[str, float], step: int | None = None) -> None:
        self.calls.append(("log", (step, values)))

    def finish(self) -> None:
        self.calls.append(("finish", None))


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> dict[str, Recorder]:
    recorders = {"wandb": Recorder(), "trackio": Recorder()}
    for name, recorder in recorders.items():
        module = ModuleType(name)
        module.init = recorder.init  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    return recorders


def test_numbers_are_sent_with_their_kind_and_step(stand_ins: dict[str, Recorder], tmp_path: Path) -> None:
    log = RunLog(tmp_path / "first", None, ["wandb", "trackio"], "maths", {"seed": 3})
    log.metrics(0, "eval", {"accuracy": 0.25})
    log.metrics(1, "train", {"reward": 0.5, "a/format": 1.0})
    log.event({"step": 1, "kind": "warning", "name": "length"})
    log.close()
    identity = (tmp_path / "first/run_id").read_text()
    wandb, trackio = stand_ins["wandb"].calls, stand_ins["trackio"].calls
    assert wandb[0] == (
        "init",
        {
            "project": "maths",
            "name": "first",
            "id": identity,
            "resume": "allow",
            "dir": str(tmp_path / "first"),
            "config": {"seed": 3},
        },
    )
    assert wandb[1:] == [
        ("define_metric", ("train/*", "step")),
        ("define_metric", ("eval/*", "step")),
        ("log", (None, {"step": 0, "eval/accuracy": 0.25})),
        ("log", (None, {"step": 1, "train/reward": 0.5, "train/a/format": 1.0})),
        ("finish", None),
    ]
    assert trackio == [
        (
            "init",
            {"project": "maths", "name": f"first-{identity}", "resume": "allow", "config": {"seed": 3}, "embed": False},
        ),
        ("log", (0, {"eval/accuracy": 0.25})),
        ("log", (1, {"train/reward": 0.5, "train/a/format": 1.0})),
        ("finish", None),
    ]
    assert not (tmp_path / "first/tensorboard").exists()


def test_a_continued_run_keeps_its_identity_and_a_new_one_gets_another(stand_ins: dict[str, Recorder], tmp_path: Path) -> None:
    for done in (None, 5, None):
        for board in open_trackers(["wandb"], tmp_path, done, "p", {}):
            board.close()
    first, continued, anew = [arguments["id"] for call, arguments in stand_ins["wandb"].calls if call == "init"]
    assert first == continued != anew


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_an_absent_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"loggers: {name} was asked for.*`pip install {name}`"):
        require_trackers([name])


def test_without_loggers_nothing_but_our_own_files_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def watched(name: str, *args: Any, **kwargs: Any) -> Any:
        assert "tensorboard" not in name
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", watched)
    log = RunLog(tmp_path, None, [])
    log.metrics(1, "train", {"reward": 0.5})
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "samples.jsonl"]
