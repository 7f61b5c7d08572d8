"""Tables of the options and the instructions of the environment `constraints`, for docs/constraints.md."""

from __future__ import annotations

from collections.abc import Iterator

from verigym.envs.constraints import __name__ as PACKAGE
from verigym.envs.constraints.environment import ConstraintsOptions
from verigym.envs.constraints.table import Constraint, known
from verigym.pages.markdown import field_table, table


def blocks() -> tuple[str, ...]:
    """Return three tables: the options, the instructions of IFEval, and the instructions of IFBench."""
    options = field_table(ConstraintsOptions, ConstraintsOptions.model_fields, title="option")
    return options, instructions("ifeval"), instructions("ifbench")


def instructions(benchmark: str) -> str:
    """Return the table of instructions of `benchmark`, which is `ifeval` or `ifbench`."""
    return table(("id", "arguments", "followed when"), _rows(benchmark))


def _rows(benchmark: str) -> Iterator[tuple[str, str, str]]:
    for constraint in known().values():
        if constraint.origin.startswith(f"{PACKAGE}.{benchmark}_"):
            arguments = ", ".join(f"`{name}`" for name in constraint.arguments.model_fields)
            yield f"`{constraint.id}`", arguments, _definition(constraint)


def _definition(constraint: Constraint) -> str:
    return f"**not in**: {constraint.missing}" if constraint.missing else constraint.definition
