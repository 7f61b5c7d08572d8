"""transformers renamed the cache of keys and values in 5.24: each model is asked by the name that it knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from verigym.trainer.models.kv_cache import call_with_cache


class Old:
    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = False) -> Any:
        return SimpleNamespace(past_key_values=[*(past_key_values or []), input_ids], use_cache=use_cache)

    def __call__(self, **inputs: Any) -> Any:
        return self.forward(**inputs)


class New:
    def forward(self, input_ids: Any, cache: Any = None, use_cache: bool = False) -> Any:
        return SimpleNamespace(cache=[*(cache or []), input_ids], use_cache=use_cache)

    def __call__(self, **inputs: Any) -> Any:
        return self.forward(**inputs)


class Adapted:
    """As PEFT wraps a model: its own signature says nothing."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def get_base_model(self) -> Any:
        return self.model

    def forward(self, **inputs: Any) -> Any:
        return self.model(**inputs)

    def __call__(self, **inputs: Any) -> Any:
        return self.forward(**inputs)


@pytest.mark.parametrize("module", [Old(), New(), Adapted(Old()), Adapted(New())])
def test_the_cache_has_the_name_that_the_model_knows(module: Any) -> None:
    first, cache = call_with_cache(module, input_ids="a")
    assert first.use_cache and cache == ["a"]
    _, cache = call_with_cache(module, cache, input_ids="b")
    assert cache == ["a", "b"]
