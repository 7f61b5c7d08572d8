"""`verigym train` and `verigym quickstart`. torch is imported when they run, so that `--help` stays quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.loading import load_torch
from verigym.cli.common.stopping import resumable
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from verigym.trainer.config.run import TrainConfig


@json_output
def train(
    config: Annotated[Path | None, typer.Option(help="YAML file of the run; docs/training.md lists the fields.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Override the file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Price the run: memory, tokens, time; train nothing.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="With --dry-run: memory of each of so many processes, without loading the model.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            help="What to train on; `verigym suite list`. Then no --config is needed.", autocompletion=completion.suites
        ),
    ] = None,
    as_json: Json = False,
) -> Result:
    """Train a model with GRPO on a weighted mixture of tasks. The same command resumes a run that was stopped."""
    from verigym.envs import UsageError
    from verigym.trainer.config.overrides import located
    from verigym.trainer.config.run import config_of, run_document
    from verigym.trainer.distributed.torchrun import launched_rank
    from verigym.trainer.models.path import refuse_missing_folder

    if config is None and suite is None:
        raise UsageError("give --config FILE, or --suite NAME with model=... and output=...")
    if processes is not None and not dry_run:
        raise UsageError("--processes is about --dry-run; start a run of several processes by torchrun")
    given = list(overrides or []) + ([f"suite={suite}"] if suite else [])
    document = run_document(config, given)
    settings = config_of(document)
    with located(document):
        # Found when the model is loaded, too, but by then torch has been imported. A run that goes on has its own model.
        if not (settings.output / "checkpoints").is_dir():
            refuse_missing_folder(settings.model)
    if dry_run:
        if launched_rank() != 0:
            return Result(ExitCode.OK)
        with located(document):
            return Result(ExitCode.OK, _show_price(settings) if processes is None else _show_memory(settings, processes))
    from verigym.trainer.monitoring.progress import BEFORE, StopRequest

    others = launched_rank() > 0  # torchrun's first process reports for all
    # The signals are handled from here on, because torch takes seconds to import, and the report to draw.
    with resumable(quiet=others), located(document), StopRequest(others, at_once=BEFORE) as stop:
        load_torch(quiet=others)
        from verigym.trainer.loop import train as run
        from verigym.trainer.monitoring.report import write_report

        stop.refuse_to_go_on()
        final = run(settings)
        if others:
            return Result(ExitCode.OK)
        stop.at_once = "before its report was written"
        curves, samples = write_report(settings.output, f"GRPO run {settings.output.name}", [("model", settings.model)])
    print(f"final model: {final}\ncurves: {curves}\nsamples: {samples}")
    paths = {"final": final, "curves": curves, "samples": samples}
    return Result(ExitCode.OK, {**paths, "metrics": _last_metrics(settings.output / "metrics.jsonl")})


def _last_metrics(file: Path) -> dict[str, Any]:
    """Return the last row of each kind, train and eval, of a run's metrics."""
    from verigym.trainer.monitoring.logs import read_rows

    return {row["kind"]: row for row in read_rows(file) if row["kind"] in ("train", "eval")}


def _show_price(settings: TrainConfig) -> dict[str, Any]:
    from verigym.envs.console import print_table
    from verigym.trainer.dry_run.estimate import estimate_run, figures, refuse_what_does_not_fit, tables

    print("loading the model to time a few small steps", file=sys.stderr, flush=True)
    estimate = estimate_run(settings, tell=lambda line: print(f"measuring {line}", file=sys.stderr, flush=True))
    for line in estimate.look:
        print(line)
    for table in tables(estimate):
        print_table(table)
    for proposal in estimate.proposals:
        print(proposal)
    refuse_what_does_not_fit(estimate.memory, estimate.free_bytes, settings)
    return figures(estimate)


def _show_memory(settings: TrainConfig, processes: int) -> dict[str, Any]:
    from verigym.envs.console import print_table
    from verigym.trainer.dry_run.shares import plan_memory

    table, figures = plan_memory(settings, processes)
    print_table(table)
    return figures


@json_output
def quickstart(
    output: Annotated[Path, typer.Option(help="Folder for the model, the logs and the report.")] = Path("runs/quickstart"),
    seed: Annotated[int, typer.Option(help="Key of all randomness.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; by default chosen by size and cores.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="GRPO steps, 400 by default; 20 show a first rise. The cold start before them stays at 300 supervised steps.",
        ),
    ] = None,
    as_json: Json = False,
) -> Result:
    """Train a small model from nothing, on a CPU in minutes: cold start, then GRPO on a mixture of verified tasks."""
    from verigym.envs.contract.errors import UsageError
    from verigym.trainer.distributed.torchrun import launched

    if (launched("WORLD_SIZE") or 1) > 1:
        raise UsageError(
            "quickstart trains in one process; start it without torchrun; several processes are for `verigym train`"
        )
    load_torch()
    from verigym.trainer.stages.quickstart import Sizes
    from verigym.trainer.stages.quickstart import quickstart as run

    with resumable():
        made = run(output, seed, Sizes() if steps is None else Sizes(grpo_steps=steps), threads)
    return Result(ExitCode.OK, made)
