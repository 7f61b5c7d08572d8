"""Imports optional packages when a setting needs them."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from verigym.envs import extras


def need(module: str, setting: str) -> Any:
    """Import and return a module of an optional package, without the warnings of its import.

    Args:
        module: the module's import name.
        setting: the setting that needs it, for the message.

    Raises:
        UsageError: the module is not installed, or cannot be imported; the message names the extra.
    """
    # bitsandbytes reports kernels that it would rather download, and uses deprecated parts of torch.
    log = logging.getLogger("bitsandbytes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return extras.need(module, setting)
    finally:
        log.setLevel(level)
