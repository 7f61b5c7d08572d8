"""Every preset trains: a step of a small model on the letters environment, with a gradient that is finite and not 0."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from runs import run, weights

from verigym.trainer.config.presets import PRESETS

# With a mean over a constant length 1e-2 is little; whatever the preset, a step must move the weights.
FIELDS: dict[str, Any] = {"steps": 1, "prompts_per_step": 4, "group_size": 4, "learning_rate": 1e-2}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_trains(name: str, letters_model: Path, tmp_path: Path) -> None:
    rows = run(letters_model, tmp_path, preset=name, **FIELDS)
    trained = [row for row in rows if row["kind"] == "train"]
    assert [row["step"] for row in trained] == [1]
    assert any(row.get("rows_with_advantage", 0) > 0 for row in trained), trained
    assert all(math.isfinite(row.get("loss", 0.0)) for row in trained)
    assert max(row.get("grad_norm", 0.0) for row in trained) > 0
    assert weights(tmp_path / "final") != weights(letters_model)
