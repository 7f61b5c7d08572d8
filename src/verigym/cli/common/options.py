"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from verigym.cli.common import completion

EnvironmentOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="An option of the environment, NAME=VALUE. May be repeated.",
        autocompletion=completion.environment_options,
    ),
]
Workers = Annotated[int | None, typer.Option(min=0, help="Grading processes; 0 grades in this process, without limits.")]
Cluster = Annotated[
    str | None, typer.Option(help="Grade on the nodes of a cluster, ray or ray:ADDRESS; --workers are then those of each node.")
]
TimeoutS = Annotated[float, typer.Option(min=0.001, help="Wall time that one completion may take.")]
