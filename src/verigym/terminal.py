"""Makes text safe to print on a terminal, and prints messages on standard error."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return `text` as one line that is safe on a terminal: non-printable characters become hexadecimal escapes."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def complain(message: str, kind: str = "error") -> None:
    """Print `message` to standard error as one line that begins with `kind`."""
    print(f"{kind}: {printable(message)}", file=sys.stderr)
