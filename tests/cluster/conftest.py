"""Puts the environments that tests define where worker processes can import them: they inherit `sys.path`."""

import sys
from pathlib import Path

_SUPPORT = str(Path(__file__).parents[1] / "envs/support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
