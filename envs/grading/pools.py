"""Which environments can share a grader."""

from __future__ import annotations

from collections.abc import Mapping

from verigym.envs.contract.base import Environment


def pools(environments: Mapping[str, Environment]) -> tuple[list[dict[str, Environment]], dict[str, int]]:
    """Return environments by name, in as few pools as can be, and the number of each one's pool by its label.

    A grader routes by an environment's name, so two that have one name and differ in their options are in different pools.

    Args:
        environments: by label.
    """
    made: list[dict[str, Environment]] = []
    pool_of: dict[str, int] = {}
    for label, environment in environments.items():
        for number, pool in enumerate([*made, None]):
            if pool is None:
                made.append({environment.name: environment})
            elif pool.setdefault(environment.name, environment).grader != environment.grader:
                continue
            pool_of[label] = number
            break
    return made, pool_of
