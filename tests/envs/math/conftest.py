"""Puts `mathgen`, the generators that the benchmark shares, where tests and the processes they spawn can import it."""

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[2])
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
