"""The table of adapters: what `verigym adapters` lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """A trainer or evaluator that verigym's environments plug into."""

    package: str
    """Its distribution on PyPI, or that of the client."""
    module: str
    """Our adapter."""
    hook: str
    """What of it we implement."""
    no_reward: str
    """What happens to a completion without a reward."""
    tried: str = ""
    """The version that the adapter's tests ran with; empty where it could not be installed."""
    wire: str = ""
    """What was tested in place of it, where it could not be installed."""


PEERS: Mapping[str, Peer] = {}
"""By name. An adapter is registered here."""
