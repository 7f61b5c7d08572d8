"""The model that runs of several processes share."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    """A model that one token in eight ends, so that lengths differ; its matrices do not divide by two evenly everywhere."""
    folder = tmp_path_factory.mktemp("model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
