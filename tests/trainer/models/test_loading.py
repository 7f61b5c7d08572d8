"""Where a policy comes from, and what is said where it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from verigym.envs import UsageError
from verigym.trainer.models.loading import load_model, pick_device


def test_an_absent_device_or_model_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == pick_device("cpu") == torch.device("cpu")
    with pytest.raises(UsageError, match="device=cpu"):
        pick_device("cuda")
    with pytest.raises(UsageError, match="there is no directory"):
        load_model(str(tmp_path / "absent"), torch.device("cpu"))
    with pytest.raises(UsageError, match="has no config.json"):
        load_model(tmp_path, torch.device("cpu"))
