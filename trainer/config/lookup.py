"""Looks up the functions that settings name, such as losses, and binds their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.trainer.config.synonyms import suggestion


def bind(field: str, name: str, table: Mapping[str, Callable[..., Any]], options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function `table[name]` with `options` bound as keyword arguments.

    Args:
        field: the setting that names the function, for the error message.
        name: the function's name.
        table: functions by name.
        options: keyword arguments of the function.

    Raises:
        UsageError: the name or an option is unknown.
    """
    if name not in table:
        raise UsageError(f"field '{field}': there is no {field} {name!r}{suggestion(field, name, table)}")
    parameters = inspect.signature(table[name]).parameters.values()
    taken = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in ("mask_BT", "lengths_PG")]
    for option in options:
        if option not in taken:
            hint = did_you_mean(option, taken) or "; it takes none"
            raise UsageError(f"field '{field}': {name} takes no option {option!r}{hint}")
    return partial(table[name], **options)
