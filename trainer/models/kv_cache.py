"""Calls a transformers model with a cache of keys and values, which is called `cache` since transformers 5.24."""

from __future__ import annotations

import inspect
from typing import Any


def call_with_cache(module: Any, cache: Any = None, **inputs: Any) -> tuple[Any, Any]:
    """Call `module` on the positions after those in `cache`; return its output and the cache, which then holds these too.

    Args:
        module: a transformers model, or its part before the output head, with any adapters.
        cache: a `transformers.Cache`; by default the model makes one of its own kind.
        inputs: further arguments of the call.
    """
    inner = module.get_base_model() if hasattr(module, "get_base_model") else module
    # Models that were written for older versions keep the older name.
    name = "cache" if "cache" in inspect.signature(type(inner).forward).parameters else "past_key_values"
    output = module(**inputs, **{name: cache}, use_cache=True)
    return output, getattr(output, name)
