"""Text on a terminal: made safe to print, and lines on standard error."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return one line that is safe on a terminal: what data holds must neither move the cursor nor fail to encode."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def complain(message: str, kind: str = "error") -> None:
    """Print one line on standard error."""
    print(f"{kind}: {printable(message)}", file=sys.stderr)
