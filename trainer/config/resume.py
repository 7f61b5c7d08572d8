"""The settings of how a run goes on from its checkpoints."""

from __future__ import annotations

from typing import Literal

from verigym.trainer.config.frozen import Frozen


class ResumeFields(Frozen):
    """How a run goes on. Not part of what it computes."""

    changed_inputs: Literal["refuse", "accept"] = "refuse"
    """What to do where the model's folder, a data file or your environment's code is not what it was at the checkpoint."""
