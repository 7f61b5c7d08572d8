"""`verigym pipeline`: runs the stages of a recipe, and shows their state. torch is imported when they run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from verigym.cli.stopping import resumable
from verigym.exit_codes import ExitCode
from verigym.terminal import complain, printable

app = typer.Typer(no_args_is_help=True, help="Recipes: stages that build on each other; docs/stages.md lists the kinds.")

Until = Annotated[str | None, typer.Option(help="Name of the last stage to check and run.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="YAML file of the pipeline.")]


@app.command()
def run(
    file: File,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="As `verigym pipeline plan`: run nothing.")] = False,
) -> int:
    """Run the stages that are not done. Stopped at any time, the same command goes on; what has not changed is skipped.

    At the end each evaluation's models are shown side by side; `tables.md` in the pipeline's folder has the same.
    """
    if dry_run:
        return plan(file, until)
    from verigym.trainer.pipelines.pipeline import run_pipeline
    from verigym.trainer.pipelines.plan import read_pipeline

    print("loading torch and transformers", file=sys.stderr, flush=True)
    pipeline = read_pipeline(file, until=until)
    from verigym.trainer.evaluation.report import beside

    with resumable():
        states = run_pipeline(pipeline, until=until, tell=lambda line: print(line, flush=True))
    tables = [
        f"## {state.stage.name}\n\n{beside(json.loads(Path(state.record['product']).read_text(encoding='utf-8')))}"
        for state in states
        if state.record is not None and state.stage.kind_name == "evaluate"
    ]
    if tables:
        text = "\n".join(tables)
        print(f"\n{text}")
        (pipeline.output / "tables.md").write_text(text, encoding="utf-8")
    print(f"manifest: {pipeline.output / 'manifest.json'}")
    return ExitCode.OK


@app.command()
def plan(
    file: File,
    until: Until = None,
    price: Annotated[bool, typer.Option(help="Price GRPO stages whose model is there: a few small steps are timed.")] = True,
) -> int:
    """Show what `run` would do, in order: what each stage reads and writes, what is done, what is wrong. Trains nothing.

    Models, files, data sets, environments, options, packages and the device are checked. Exit code 2 where a stage cannot run.
    """
    from verigym.trainer.pipelines.plan import read_pipeline

    print("loading torch and transformers", file=sys.stderr, flush=True)
    from verigym.trainer.pipelines.preview import preview

    problems = []
    for number, stage in enumerate(preview(read_pipeline(file, until=until), until, priced=price), 1):
        of = stage.state.stage
        print(f"{number}. {of.name} ({of.kind_name}): {stage.state.word}")
        for read in stage.reads:
            print(f"     reads {printable(read)}")
        print(f"     makes a {of.kind.makes} in {stage.writes}".replace("a data", "data"))
        if stage.cost:
            print(f"     cost: {stage.cost}")
        if stage.problem:
            problems.append(stage.problem)
            print(f"     CANNOT RUN: {printable(stage.problem)}")
    if problems:
        complain(f"{len(problems)} stage{'s' if len(problems) > 1 else ''} cannot run; the first: {problems[0]}")
        return ExitCode.USAGE
    print("nothing is in the way")
    return ExitCode.OK


@app.command()
def status(file: File) -> int:
    """Show which stages are done, begun, to do, or waiting for another."""
    from verigym.trainer.pipelines.pipeline import figures_line
    from verigym.trainer.pipelines.pipeline import status as states_of
    from verigym.trainer.pipelines.plan import read_pipeline

    rows = [("stage", "kind", "state", "makes", "figures")]
    for state in states_of(read_pipeline(file, losses=False)):  # without torch, which may be on another machine
        made = str(state.record["product"]) if state.record else str(state.folder or "")
        rows.append((state.stage.name, state.stage.kind_name, state.word, made, figures_line(state.record or {"figures": {}})))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # on one line each: a narrow terminal cuts no folder's name
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    return ExitCode.OK
