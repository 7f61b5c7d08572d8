"""A policy whose completions end at different lengths, and its codec."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from verigym.trainer.models.codec import Codec

_SUPPORT = str(Path(__file__).parent / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)


@pytest.fixture(scope="module")
def policy(tiny_tokenizer: Any, tiny_model: Any) -> Any:
    """A model that one token in twenty ends; a test module may change its weights."""
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 20))
    return model


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any, policy: Any) -> Codec:
    return Codec(tiny_tokenizer, policy.generation_config)
