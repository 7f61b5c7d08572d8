"""The engines, for docs/engines.md."""

from __future__ import annotations

from verigym.pages.markdown import table
from verigym.trainer.config.engine import ENGINES


def blocks() -> tuple[str, ...]:
    """Return the table of engines."""
    rows = ((f"`{name}`", entry.what, entry.where) for name, entry in ENGINES.items())
    return (table(("`engine`", "what it is", "where"), rows),)
