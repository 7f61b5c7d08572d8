"""Decides where items are graded: which environments can share a Grader, and on which cluster its workers run.

A table lists the kinds of clusters; the module of each is imported only when it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from verigym.envs.grading.engine import Engine

CLUSTERS: Mapping[str, str] = {"ray": "verigym.cluster.ray_cluster:open_engine"}
"""Mapping from each kind of cluster to the function, written `module:function`, that returns an engine for such a cluster. The
function takes a mapping from name to environment, an address, and the engine's settings."""


def named_cluster(cluster: str) -> str:
    """Return `cluster` unchanged if it names a known kind of cluster. Used to validate a setting.

    Raises:
        ValueError: the kind of cluster is unknown.
    """
    try:
        check_cluster(cluster)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return cluster


Cluster = Annotated[str, AfterValidator(named_cluster)]
"""A setting: `KIND` or `KIND:ADDRESS`."""


def check_cluster(cluster: str) -> tuple[str, str]:
    """Return the kind and the address in `cluster`, written `KIND` or `KIND:ADDRESS`. The address may be empty.

    Raises:
        UsageError: the kind of cluster is unknown.
    """
    kind, _, address = cluster.partition(":")
    if kind not in CLUSTERS:
        raise UsageError(
            f"cluster {cluster!r}: expected {' or '.join(CLUSTERS)}, or KIND:ADDRESS{did_you_mean(kind, CLUSTERS)}"
        )
    return kind, address


def open_cluster(cluster: str, environments: Mapping[str, Environment], **settings: Any) -> Engine:
    """Return the engine with which a Grader grades on a cluster.

    Args:
        cluster: `KIND` or `KIND:ADDRESS`.
        environments: mapping from name to environment.
        settings: settings of the engine (see `Engine`).

    Raises:
        UsageError: the kind of cluster is unknown, or its package is not installed.
    """
    kind, address = check_cluster(cluster)
    module, _, function = CLUSTERS[kind].partition(":")
    engine: Engine = getattr(importlib.import_module(module), function)(environments, address, **settings)
    return engine


def pools(environments: Mapping[str, Environment]) -> tuple[list[dict[str, Environment]], dict[str, int]]:
    """Distribute `environments` over as few pools as possible. Return the pools and, for each label, the index of its pool.

    A pool is a mapping from name to environment that one Grader can take. A grader finds an environment by its name, so two
    environments with the same name but different options go into different pools.

    Args:
        environments: mapping from a label of your choice to an environment.
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
