"""Generated tables of the documentation: one module a page, named in `PAGES`; `python -m verigym.pages NAME` prints them.

Each module has a function `blocks`, which returns the generated parts of its page. A test checks that the page holds them.
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
"""The file in docs/ by the name of the module that generates its tables."""


def blocks(name: str) -> tuple[str, ...]:
    """Return the generated parts of a documentation page, in the page's order.

    Args:
        name: one of `PAGES`.
    """
    found: tuple[str, ...] = import_module(f"{__name__}.{name}").blocks()
    return found
