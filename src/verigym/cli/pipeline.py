"""`verigym pipeline`: runs the stages of a recipe, and shows their state. torch is imported when they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.loading import load_torch
from verigym.cli.common.stopping import resumable
from verigym.exit_codes import ExitCode
from verigym.terminal import complain, printable

if TYPE_CHECKING:
    from verigym.trainer.pipelines.pipeline import State

app = typer.Typer(no_args_is_help=True, help="Recipes: stages that build on each other; docs/stages.md lists the kinds.")

Until = Annotated[str | None, typer.Option(help="Name of the last stage to check and run.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="YAML file of the pipeline.")]


@app.command()
@json_output
def run(
    file: File,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="As `verigym pipeline plan`: run nothing.")] = False,
    as_json: Json = False,
) -> Result:
    """Run the stages that are not done yet. The same command resumes a stopped pipeline; stages without changes are skipped.

    At the end, a table compares the models of each evaluation; `tables.md` in the pipeline's folder has the same tables.
    """
    if dry_run:
        return _planned(file, until, price=True)
    from verigym.trainer.pipelines.pipeline import run_pipeline
    from verigym.trainer.pipelines.plan import read_pipeline

    load_torch()
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
    manifest = pipeline.output / "manifest.json"
    print(f"manifest: {manifest}")
    return Result(ExitCode.OK, {"manifest": manifest, "stages": list(map(_stage, states))})


def _stage(state: State) -> dict[str, Any]:
    """Return a stage's state as data; of a stage that is done, its product and its figures as in `manifest.json`."""
    record = state.record or {}
    return {
        "name": state.stage.name,
        "kind": state.stage.kind_name,
        "state": state.word,
        "folder": state.folder,
        "product": record.get("product"),
        "figures": record.get("figures", {}),
    }


@app.command()
@json_output
def plan(
    file: File,
    until: Until = None,
    price: Annotated[bool, typer.Option(help="Price GRPO stages whose model is there: a few small steps are timed.")] = True,
    as_json: Json = False,
) -> Result:
    """Show what `run` would do, without training: for each stage its inputs, outputs and state, and what is wrong.

    Models, files, data sets, environments, options, packages and the device are checked. Exit code 2 where a stage cannot run.
    """
    return _planned(file, until, price)


def _planned(file: Path, until: str | None, price: bool) -> Result:
    from verigym.trainer.pipelines.plan import read_pipeline

    load_torch()
    from verigym.trainer.pipelines.preview import preview

    problems, stages = [], []
    for number, stage in enumerate(preview(read_pipeline(file, until=until), until, priced=price), 1):
        of = stage.state.stage
        print(f"{number}. {of.name} ({of.kind_name}): {stage.state.word}")
        for read in stage.reads:
            print(f"     reads {printable(read)}")
        print(f"     makes a {of.kind.makes} in {stage.writes}".replace("a data", "data"))
        if stage.cost:
            print(f"     cost: {stage.cost}")
        figures = {"cost_s": None if stage.cost_s is None else dict(zip(("expected", "most"), stage.cost_s, strict=True))}
        stages.append(
            {**_stage(stage.state), "reads": stage.reads, "writes": stage.writes, **figures, "problem": stage.problem}
        )
        if stage.problem:
            problems.append(stage.problem)
            print(f"     CANNOT RUN: {printable(stage.problem)}")
    if problems:
        complain(f"{len(problems)} stage{'s' if len(problems) > 1 else ''} cannot run; the first: {problems[0]}")
        return Result(ExitCode.USAGE, {"stages": stages})
    print("nothing is in the way")
    return Result(ExitCode.OK, {"stages": stages})


@app.command()
@json_output
def status(file: File, as_json: Json = False) -> Result:
    """Show the state of each stage: done, begun, to do, or waiting for another stage."""
    from verigym.trainer.pipelines.pipeline import figures_line
    from verigym.trainer.pipelines.pipeline import status as states_of
    from verigym.trainer.pipelines.plan import read_pipeline

    rows = [("stage", "kind", "state", "makes", "figures")]
    states = states_of(read_pipeline(file, losses=False))  # without torch, which may be on another machine
    for state in states:
        made = str(state.record["product"]) if state.record else str(state.folder or "")
        rows.append((state.stage.name, state.stage.kind_name, state.word, made, figures_line(state.record or {"figures": {}})))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # on one line each: a narrow terminal cuts no folder's name
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    return Result(ExitCode.OK, {"stages": list(map(_stage, states))})
