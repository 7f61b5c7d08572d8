"""Packages of the extras, imported when a setting asks for them."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from verigym.envs import extras


def need(module: str, setting: str) -> Any:
    """Import a module that only some runs need, without what it warns of while it is imported.

    Args:
        module: its import name.
        setting: what asked for it, for the message.

    Raises:
        UsageError: it is not installed, or cannot be imported; the message names the extra.
    """
    # bitsandbytes reports kernels that it would rather have downloaded, and builds on what torch calls deprecated.
    log = logging.getLogger("bitsandbytes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return extras.need(module, setting)
    finally:
        log.setLevel(level)
