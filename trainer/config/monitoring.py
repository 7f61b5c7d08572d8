"""Settings that leave the computation as it is: warnings, stops, loggers, and checks on resume."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from verigym.trainer.config.frozen import Frozen

LoggerName = Literal["tensorboard", "wandb", "trackio"]


class MonitoringFields(Frozen):
    """Settings of warnings, stops and loggers. They may change when a run is resumed."""

    on_dead_run: Literal["warn", "stop"] = "warn"
    """What to do after dead_run_steps steps in a row without any gradient from the rewards."""
    dead_run_steps: int = Field(default=20, ge=1)
    """The run counts as dead after this many steps in a row in which the rewards teach nothing: no completion has an advantage,
    the gradient is 0, or, with gae, all rewards of the step are equal."""
    on_broken_grader: Literal["warn", "stop"] = "stop"
    """What to do when a source's judge raises errors on more than broken_grader_share of the last 200 completions, or the
    source's first 200 completions all get no verdict."""
    max_bad_steps: int = Field(default=3, ge=1)
    """The run stops after this many infinite or nan updates in a row. Each is skipped, and its batch saved in bad_batches/."""
    sampled_nll_floor: float = Field(default=0.05, ge=0, lt=1)
    """Warn when the sampled NLL, an estimate of the entropy, is below this share of its median over the first 10 steps; 0 for
    never."""
    sampled_nll_ceiling: float = Field(default=4.0, gt=1)
    """Warn when the sampled NLL is above this many times its median over the first 10 steps."""
    length_floor: float = Field(default=0.25, ge=0, lt=1)
    """Warn when completions are shorter than this share of their median length over the first 10 steps; 0 for never."""
    length_ceiling: float = Field(default=4.0, gt=1)
    """Warn when completions are longer than this many times their median length over the first 10 steps."""
    reward_jump: float = Field(default=0.25, gt=0)
    """Warn when within 18 steps the mean reward rises by at least this number and completions lose over a third of their
    length."""
    unscored_share: float = Field(default=0.1, gt=0, le=1)
    """Warn when more than this share of the completions gets no verdict."""
    logprob_mismatch_limit: float = Field(default=0.1, gt=0)
    """Warn when log-probabilities at sampling and in training differ by more than this many nats, averaged over tokens."""
    warn_every: int = Field(default=50, ge=1)
    """Least number of steps between two warnings of one kind."""

    loggers: tuple[LoggerName, ...] = ("tensorboard",)
    """Loggers that get the metrics, in addition to the file metrics.jsonl: any of tensorboard, wandb and trackio."""
    log_project: str = Field(default="verigym", min_length=1)
    """Project name for wandb and trackio."""


class ResumeFields(Frozen):
    """Settings of the checks on resume. They may differ between the starts of one run."""

    changed_inputs: Literal["refuse", "accept"] = "refuse"
    """What to do if the model's folder, a data file or your environment's code has changed since the checkpoint."""
