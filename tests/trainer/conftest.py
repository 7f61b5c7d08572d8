"""The one place that owns tolerances and how golden values become tensors."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

# Worker processes inherit sys.path, and find the tests' environments there.
_SUPPORT = str(Path(__file__).parent / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)

# Models this small gain nothing from a second thread, and lose much where another process wants the core.
torch.set_num_threads(1)

AssertNear = Callable[[torch.Tensor, Any], None]

LITERAL = 1e-6
"""Golden values are written with six decimals; half of the last one, and some room."""
EXACT = {torch.float32: 1e-6, torch.float64: 1e-12}
"""Two ways to compute the same thing: rounding only, relative to values of about 1."""


# Session-scoped, because hypothesis refuses function-scoped fixtures: its examples would share one.
@pytest.fixture(scope="session")
def assert_literal() -> AssertNear:
    """Compare with a literal that was derived by hand."""

    def check(actual: torch.Tensor, expected: Sequence[Any] | float) -> None:
        wanted = torch.tensor(expected, dtype=actual.dtype)
        torch.testing.assert_close(actual.detach(), wanted, rtol=0.0, atol=LITERAL)

    return check


@pytest.fixture(scope="session")
def assert_same() -> AssertNear:
    """Compare with another computation of the same thing."""

    def check(actual: torch.Tensor, expected: torch.Tensor | Sequence[Any] | float) -> None:
        wanted = torch.as_tensor(expected, dtype=actual.dtype).detach()
        tolerance = EXACT[actual.dtype]
        torch.testing.assert_close(actual.detach(), wanted, rtol=tolerance, atol=tolerance)

    return check


@pytest.fixture(scope="session")
def batch() -> Callable[..., torch.Tensor]:
    """Make a reproducible float64 tensor of standard normal values from a name and a shape."""

    def make(name: str, *shape: int) -> torch.Tensor:
        seed = int.from_bytes(name.encode(), "little") % 2**63
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    return make


@pytest.fixture(scope="session")
def letters_model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, tiny_model: Any) -> Path:
    """A model that one token in eight ends, so that some completions are cut off and some are not."""
    folder = tmp_path_factory.mktemp("letters_model")
    model = copy.deepcopy(tiny_model)
    model.generation_config.eos_token_id = list(range(1, len(tiny_tokenizer), 8))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
