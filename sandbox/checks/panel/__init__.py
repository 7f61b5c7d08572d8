"""The panel of `selfcheck`: small programs that forge verdicts, exhaust resources, try to escape, or are honest but unusual."""

from __future__ import annotations

from verigym.sandbox.checks.panel.escapes import ESCAPES
from verigym.sandbox.checks.panel.forgeries import FORGERIES
from verigym.sandbox.checks.panel.honest import HONEST
from verigym.sandbox.checks.panel.probe import Probe
from verigym.sandbox.checks.panel.resources import RESOURCES

PROBES: tuple[Probe, ...] = (*FORGERIES, *RESOURCES, *ESCAPES, *HONEST)

__all__ = ["PROBES", "Probe"]
