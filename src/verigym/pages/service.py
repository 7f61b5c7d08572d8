"""The settings of the service, for docs/service.md."""

from __future__ import annotations

from verigym.pages.markdown import field_table
from verigym.serve.settings import Served, ServiceLimits, ServiceSettings


def blocks() -> tuple[str, ...]:
    """Return three tables: the fields of a configuration, of one environment in it, and of its limits."""
    fields = [name for name in ServiceSettings.model_fields if name != "limits"]
    return (
        f"### Fields of the configuration\n\n{field_table(ServiceSettings, fields)}",
        f"### An environment in `environments`\n\n{field_table(Served)}",
        f"### Limits\n\n{field_table(ServiceLimits)}",
    )
