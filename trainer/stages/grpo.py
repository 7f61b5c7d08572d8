"""The stage `grpo`: a training run, with its report."""

from __future__ import annotations

from pathlib import Path

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.loop import train
from verigym.trainer.monitoring.report import write_report


def grpo(config: TrainConfig) -> Path:
    """Train with GRPO as `verigym train` does, write `curves.png` and `samples.html`, and return the final model's folder.

    Raises:
        UsageError, Interrupted: as `trainer.loop.train`.
    """
    final = train(config)
    write_report(config.output, f"GRPO run {config.output.name}", [("model", config.model)])
    return final
