"""Experiment trackers: TensorBoard, Weights & Biases, Trackio. Each package is imported only when a run names it."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from verigym.envs.contract.errors import UsageError

PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "trackio": "trackio"}
"""Package to install, by the name of the logger."""


class Tracker(Protocol):
    """A service or file format that records metrics by step."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record the metrics `values` of a step. Their names begin with the kind of row, as in `train/reward`."""

    def close(self) -> None:
        """Flush and close."""


class TensorBoardTracker:
    """Writes metrics to TensorBoard's event files in the folder `tensorboard/`.

    A resumed run purges the steps that it repeats.
    """

    def __init__(self, output: Path, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(output / "tensorboard"), purge_step=first_step)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:  # noqa: D102
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:  # noqa: D102
        self._writer.close()


class WandbTracker:
    """Records metrics to a run of Weights & Biases.

    The step counter of Weights & Biases cannot go back when a run is resumed. So the step is recorded as a metric, which is the
    x axis of all other metrics.
    """

    def __init__(self, wandb: Any, output: Path, project: str, identity: str, config: Mapping[str, Any]) -> None:
        self._run = wandb.init(
            project=project, name=output.name, id=identity, resume="allow", dir=str(output), config=dict(config)
        )
        for kind in ("train", "eval"):
            self._run.define_metric(f"{kind}/*", step_metric="step")

    def metrics(self, step: int, values: Mapping[str, float]) -> None:  # noqa: D102
        self._run.log({"step": step, **values})

    def close(self) -> None:  # noqa: D102
        self._run.finish()


class TrackioTracker:
    """Records metrics to a Trackio run, named after the output folder and an id, because folder names may repeat."""

    def __init__(self, trackio: Any, output: Path, project: str, identity: str, config: Mapping[str, Any]) -> None:
        self._run = trackio.init(
            project=project, name=f"{output.name}-{identity}", resume="allow", config=dict(config), embed=False
        )

    def metrics(self, step: int, values: Mapping[str, float]) -> None:  # noqa: D102
        self._run.log(dict(values), step=step)

    def close(self) -> None:  # noqa: D102
        self._run.finish()


def require_trackers(names: Sequence[str]) -> None:
    """Import the packages of the loggers `names`, so that a missing one is found before anything is computed.

    Raises:
        UsageError: a package is missing; the message names it.
    """
    for name in names:
        _package(name)


def open_trackers(
    names: Sequence[str], output: Path, done_steps: int | None, project: str, config: Mapping[str, Any]
) -> list[Tracker]:
    """Open and return the loggers.

    Args:
        names: any of `PACKAGES`.
        output: the run's folder.
        done_steps: steps of the checkpoint that the run resumes from; None for a new run.
        project: project name, for the loggers that have projects.
        config: the run's settings, as plain JSON data.

    Raises:
        UsageError: a package is not installed.
    """
    identity = "" if set(names) <= {"tensorboard"} else _identity(output, new=done_steps is None)
    trackers: list[Tracker] = []
    for name in names:
        package = _package(name)
        if name == "tensorboard":
            trackers.append(TensorBoardTracker(output, 0 if done_steps is None else done_steps + 1))
        else:
            kind = WandbTracker if name == "wandb" else TrackioTracker
            trackers.append(kind(package, output, project, identity, config))
    return trackers


def _package(name: str) -> Any:
    try:
        return importlib.import_module(PACKAGES[name])
    except ImportError as error:
        raise UsageError(
            f"loggers: {name} was asked for, but cannot be imported ({error}); "
            f"`pip install {PACKAGES[name]}`, or leave it out of `loggers`"
        ) from None


def _identity(output: Path, new: bool) -> str:
    """Return the id by which the services know the run in `output`; a resumed run keeps it."""
    path = output / "run_id"
    if new or not path.exists():
        path.write_text(secrets.token_hex(4), encoding="utf-8")
    return path.read_text(encoding="utf-8")
