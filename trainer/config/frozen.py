"""Base class of all settings."""

from __future__ import annotations

from pydantic import ConfigDict

from verigym.envs.contract.settings import Settings


class Frozen(Settings):
    """Base class of the trainer's settings. The string under a field is the field's description."""

    model_config = ConfigDict(protected_namespaces=())
