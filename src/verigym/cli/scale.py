"""`verigym scale`: predicts how many servers and graders a larger run needs, by a simulation calibrated on small runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.envs.contract.errors import UsageError
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verigym.scale.calibration import Costs
    from verigym.scale.plans import Plan


@json_output
def scale(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Output folders of runs of one model on one machine; the first one's steps are those that are scaled.",
        ),
    ],
    servers: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of engines or servers that generate.")] = "1,2,4",
    workers: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of processes that grade.")] = "1,2,4,8,16",
    overlap: Annotated[bool, typer.Option("--overlap", help="Sample the next step's batch during the update.")] = False,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="Split so many GPUs into servers and learners, each with the workers it needs.")
    ] = None,
    completions: Annotated[
        int | None, typer.Option(min=1, help="Completions a step; those of the first run by default.")
    ] = None,
    as_json: Json = False,
) -> Result:
    """Predict the step times of a larger run, by simulating servers, graders and updates with costs measured in small runs."""
    from verigym.envs.extras import need

    need("simpy", "verigym scale")
    from verigym.scale.calibration import calibrate
    from verigym.scale.plans import grid, split
    from verigym.scale.simulation import Plant

    costs = calibrate(runs)
    measured_by = Plant(overlap=overlap)
    if gpus is None:
        plans = grid(costs, _numbers("--servers", servers), _numbers("--workers", workers), [measured_by.overlap], completions)
    else:
        plans = split(costs, gpus, overlap, completions)
    _show(costs, plans)
    return Result(ExitCode.OK, {"costs": costs, "plans": [one.figures() for one in plans]})


def _numbers(option: str, text: str) -> list[int]:
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if not all(numbers):
        raise UsageError(f"{option} {text!r}: expected whole numbers above 0 with commas between them, such as 1,2,4")
    return sorted(set(numbers))


def _show(costs: Costs, plans: Sequence[Plan]) -> None:
    from rich.table import Table

    from verigym.envs.console import print_table

    verdicts = sum(one.share * one.mean_s for one in costs.verdicts)
    print(
        f"calibrated by {costs.steps} steps: {costs.completions:.0f} completions of {costs.tokens_mean:.0f} tokens, "
        f"the longest {costs.tokens_largest:.0f}; a decoding step takes {costs.decode_s * 1e3:.3g} ms and "
        f"{costs.token_s * 1e3:.3g} ms for each row, a verdict {verdicts * 1e3:.3g} ms, an update {costs.update_s:.3g} s "
        f"and {costs.trained_token_s * 1e3:.3g} ms for each token"
    )
    if costs.one_size:
        print(
            "all steps had one size: add a run with other prompts_per_step or group_size, or predictions for other numbers of "
            "completions or servers are rough"
        )
    table = Table()
    for name in ("servers", "learners", "workers", "completions", "step", "generation", "verdict wait", "update", "tokens/s"):
        table.add_column(name, justify="right")
    for name in ("servers busy", "workers busy", "learners busy", "bound by"):
        table.add_column(name, justify="right")
    for one in plans:
        table.add_row(*_cells(one))
    print_table(table)


def _cells(one: Plan) -> list[Any]:
    of = one.prediction
    return [
        *map(str, (one.plant.servers, one.plant.learners, one.plant.workers, one.completions)),
        *(f"{seconds:.3g} s" for seconds in (of.step_s, of.generation_s, of.grade_wait_s, of.update_s)),
        f"{of.tokens_per_s:.0f}",
        *(f"{share:.0%}" for share in (of.servers_busy, of.workers_busy, of.learners_busy)),
        one.bound,
    ]
