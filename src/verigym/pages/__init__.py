"""Generates tables for the documentation, with one module per page; `python -m verigym.pages NAME` prints a page's tables.

`PAGES` lists the modules. Each has a function `blocks`, which returns the generated parts of its page. A test checks that the
page in docs/ contains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

PAGES: Mapping[str, str] = MappingProxyType(
    {
        "adapters": "adapters.md",
        "exit_codes": "cli.md",
        "constraints": "constraints.md",
        "datasets": "datasets_table.md",
        "engines": "engines.md",
        "evaluation": "evaluation.md",
        "math": "math.md",
        "presets": "presets.md",
        "service": "service.md",
        "stages": "stages_table.md",
        "training": "training.md",
    }
)
"""Maps each module of this package to the file in docs/ that holds the tables from the module."""


def blocks(name: str) -> tuple[str, ...]:
    """Return the generated parts of a documentation page, in the page's order.

    Args:
        name: one of `PAGES`.
    """
    found: tuple[str, ...] = import_module(f"{__name__}.{name}").blocks()
    return found
