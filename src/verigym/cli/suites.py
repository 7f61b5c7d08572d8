"""`verigym suite`: lists, shows, checks and prices mixtures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from verigym.trainer.config.run import TrainConfig

app = typer.Typer(no_args_is_help=True, help="Suites: what a model is trained on together.")


SuiteName = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="A suite that comes with verigym, or a YAML file of yours.",
        autocompletion=completion.suites,
    ),
]


@app.command("list")
@json_output
def show_all(as_json: Json = False) -> Result:
    """List the suites."""
    from verigym.datasets_cfg.suites import available_suites, load_suite

    suites = {name: load_suite(name) for name in available_suites()}
    width = max(map(len, suites))
    for name, suite in suites.items():
        print(f"{name:<{width}}  {suite.description} ({', '.join(source.label for source in suite.sources)})")
    document = [
        {"name": name, "description": suite.description, "sources": [source.label for source in suite.sources]}
        for name, suite in suites.items()
    ]
    return Result(ExitCode.OK, document)


@app.command()
def show(suite: SuiteName) -> int:
    """Print a suite, as it is written."""
    from verigym.datasets_cfg.suites import load_suite, suite_text

    load_suite(suite)
    print(suite_text(suite), end="")
    return ExitCode.OK


@app.command()
@json_output
def check(
    suite: SuiteName,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of local files; what is not there is not read.")] = None,
    hub: Annotated[bool, typer.Option("--hub", help="Read from the hub what is not local, instead of the sample row.")] = False,
    golds: Annotated[int, typer.Option(min=1, max=1000, help="Tasks to look at, and golds to judge, of each source.")] = 5,
    tokenizer: Annotated[str | None, typer.Option(help="Count tokens with this one; characters / 4 by default.")] = None,
    as_json: Json = False,
) -> Result:
    """Check that all parts of a suite can be loaded and used, and measure the cost: tasks, prompt tokens, time of a verdict."""
    from rich.table import Table
    from rich.text import Text  # text is shown as it is: a source may be called [bold]

    from verigym.datasets_cfg.suites import load_suite
    from verigym.envs.console import print_table
    from verigym.envs.progress import Progress
    from verigym.terminal import printable
    from verigym.trainer.config.overrides import located
    from verigym.trainer.config.run import config_of, run_document
    from verigym.trainer.dry_run.source_price import price

    described = load_suite(suite)
    described.check_measured()
    given = [f"suite={json.dumps(suite)}", "model=none", "output=none"]
    document = run_document(None, given if data_dir is None else [*given, f"data_dir={json.dumps(str(data_dir))}"])
    config = config_of(document)
    with located(document):
        _refuse_unstartable(config)
        with Progress("pricing") as progress:
            found = price(config, golds, hub, _counter(tokenizer), progress.of_total)
    table = Table("source", "grader", "share", "tasks", "measured on", "prompt tokens", "s a verdict", "golds", box=None)
    for one in found:
        tasks = "-" if one.tasks is None and one.where != "generated" else "endless" if one.tasks is None else f"{one.tasks:,}"
        seconds = "-" if one.grade_s is None else f"{one.grade_s:.4f}"
        cells = (tasks, one.where, f"{one.prompt_tokens:,.0f}", seconds, str(one.graded))
        table.add_row(*map(Text, (one.label, one.environment, f"{one.share:.3f}", *cells)))
    print_table(table)
    tokens = sum(one.share * one.prompt_tokens for one in found)
    seconds_known = [(one.share, one.grade_s) for one in found if one.grade_s is not None]
    known = sum(share for share, _ in seconds_known)
    graded = sum(share * (value or 0.0) for share, value in seconds_known) / known if known else 0.0
    step = config.prompts_per_step * config.group_size
    print(
        f"a step of {config.prompts_per_step} prompts x {config.group_size} completions: "
        f"{config.prompts_per_step * tokens:,.0f} prompt tokens, at most {step * config.max_new_tokens:,} completion tokens, "
        f"{step * graded:.2f} s of grading on one core as far as golds tell ({known:.0%} of the prompts)"
    )
    for one in found:
        if one.problem:
            print(printable(f"problem: {one.label}: {one.problem}"))
    print(f"measured on: {', '.join(f'{m.dataset}/{m.split}' for m in described.measure) or 'nothing named'}")
    figures = {
        "suite": suite,
        "sources": found,
        "step": {
            "prompts": config.prompts_per_step,
            "group_size": config.group_size,
            "prompt_tokens": config.prompts_per_step * tokens,
            "max_completion_tokens": step * config.max_new_tokens,
            "grading_s": step * graded if known else None,
            "grading_known_share": known,
        },
        "measure": [f"{one.dataset}/{one.split}" for one in described.measure],
    }
    return Result(ExitCode.FAILED if any(one.problem for one in found) else ExitCode.OK, figures)


def _refuse_unstartable(config: TrainConfig) -> None:
    """Check what a run checks first: that its loss, correction and advantages are there and fit each other."""
    if find_spec("torch") is None:
        print("not checked without torch: losses, corrections and advantages; pip install 'verigym[train]'", file=sys.stderr)
        return
    from verigym.trainer.preflight import refuse_unstartable

    refuse_unstartable(config)


def _counter(tokenizer: str | None) -> Callable[[Any], int] | None:
    if tokenizer is None:
        return None
    from transformers import AutoTokenizer

    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.path import require_model

    codec = Codec(AutoTokenizer.from_pretrained(require_model(tokenizer)))
    return lambda prompt: len(codec.encode(prompt))
