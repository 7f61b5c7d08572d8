"""Which of a stage's settings its model's record keeps."""

from __future__ import annotations

from typing import Any

from verigym.trainer.checkpoints.store import FREE_FIELDS
from verigym.trainer.reward_models.config import TrainedOnDataFields

UNTOLD = FREE_FIELDS - {"steps"} | {"model", "data", "held_out_data", "device", "threads", "eval_every"}
"""Places, which differ between machines, and what decides nothing."""


def deciding(config: TrainedOnDataFields) -> dict[str, Any]:
    """Return the settings that decide what is trained, as JSON."""
    return config.model_dump(mode="json", exclude=UNTOLD)
