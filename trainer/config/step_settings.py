"""The settings that a GRPO run and the other training stages have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol


class OptimizerSettings(Protocol):
    """Settings of the optimizer and of its learning rate at each step."""

    @property
    def optimizer(self) -> Literal["adamw", "adamw_8bit"]: ...  # noqa: D102
    @property
    def learning_rate(self) -> float: ...  # noqa: D102
    @property
    def schedule(self) -> Literal["constant", "linear", "cosine"]: ...  # noqa: D102
    @property
    def warmup_steps(self) -> int: ...  # noqa: D102
    @property
    def weight_decay(self) -> float: ...  # noqa: D102
    @property
    def adam_betas(self) -> tuple[float, float]: ...  # noqa: D102


class StepSettings(OptimizerSettings, Protocol):
    """The settings that checkpoints and logs of a run or stage need, in addition to those of the optimizer."""

    @property
    def output(self) -> Path: ...  # noqa: D102
    @property
    def loggers(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def log_project(self) -> str: ...  # noqa: D102

    def model_dump(self, *, mode: str = "python", exclude: Any = None) -> dict[str, Any]:
        """Return the settings by name, without those in `exclude`; with `mode` `json` all values are plain JSON data."""
