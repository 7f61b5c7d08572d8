"""What every comparison may end in."""

from typing import Literal

Verdict = Literal["same", "different", "unknown"]
