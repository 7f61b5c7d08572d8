"""`verigym report`: one page of runs, scores and evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.exit_codes import ExitCode

INPUTS = (
    "A run's folder, SCORES.jsonl of `verigym grade`, or the folder of `verigym eval`; NAME=PATH names it. "
    "The others are compared with the first."
)


@json_output
def report(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help=INPUTS)],
    out: Annotated[
        Path | None, typer.Option(help="The page. By default FOLDER/report.html, or SCORES.report.html, of the first input.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page; by default the inputs' names.")] = "",
    difficulty: Annotated[
        str | None, typer.Option(help="Column or metadata that says how difficult a task is; by default difficulty or level.")
    ] = None,
    graded: Annotated[Path | None, typer.Option(help="The file that was graded, where it has moved since.")] = None,
    max_samples: Annotated[
        int, typer.Option(min=1, help="About so many samples go into the page; of more, whole prompts are chosen by hash.")
    ] = 100_000,
    max_chars: Annotated[int, typer.Option(min=100, help="A longer text is cut in the middle.")] = 20_000,
    as_json: Json = False,
) -> Result:
    """Write a web page of curves, verdicts and samples, which can be read without a server or a network."""
    from verigym.report.build import ReportOptions, build_report
    from verigym.report.reading.inputs import find_inputs, named_path
    from verigym.terminal import complain, printable

    found = find_inputs(inputs)
    options = ReportOptions(title, max_samples, max_chars, difficulty, graded)
    built = build_report(found, out or _default_out(named_path(inputs[0])[1]), options)
    for note in built.notes:
        complain(note, "note")
    for finding in built.findings:
        print(printable(f"  {finding.text}"))
    shown = "all" if built.shown == built.samples else f"{built.shown:,} of"
    print(printable(f"report: {built.path} ({built.bytes / 1e6:.1f} MB, {shown} {built.samples:,} samples)"))
    figures = {"path": built.path, "bytes": built.bytes, "samples": built.samples, "shown": built.shown, "notes": built.notes}
    figures["findings"] = [finding._asdict() for finding in built.findings]
    return Result(ExitCode.OK, figures)


def _default_out(first: Path) -> Path:
    return first / "report.html" if first.is_dir() else first.with_name(f"{first.stem}.report.html")
