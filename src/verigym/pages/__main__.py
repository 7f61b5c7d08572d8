"""`python -m verigym.pages NAME`: print the generated parts of a page, to paste into docs/."""

from __future__ import annotations

import sys

from verigym.pages import PAGES, blocks

if len(sys.argv) != 2 or sys.argv[1] not in PAGES:
    sys.exit(f"usage: python -m verigym.pages NAME, where NAME is one of {', '.join(PAGES)}")
print("\n\n".join(blocks(sys.argv[1])))
