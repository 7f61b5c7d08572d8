"""Examples and tables of documentation pages, for tests that run and compare them."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

DOCS = Path(__file__).resolve().parents[3] / "docs"


def python_blocks(page: str) -> list[str]:
    """Return the Python examples of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def option_table(options: type[BaseModel]) -> str:
    """Return the table of options as pages have it."""
    lines = ["| option | default | what |", "|---|---|---|"]
    for name, field in options.model_fields.items():
        words = " ".join((field.description or "").split()).replace("|", "\\|")
        value = "required" if field.is_required() else field.get_default(call_default_factory=True)
        shown = str(value).lower() if isinstance(value, bool) else '""' if value == "" else str(value)
        lines.append(f"| `{name}` | {shown if field.is_required() else f'`{shown}`'} | {words} |")
    return "\n".join(lines) + "\n"
