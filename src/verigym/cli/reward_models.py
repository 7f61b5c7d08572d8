"""Commands that train reward models. Each runs one stage, configured by a file with the fields of the stage.

torch is imported only when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.loading import load_torch
from verigym.cli.common.stopping import resumable
from verigym.envs.contract.errors import UsageError
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from verigym.datasets_cfg.yamlfile import Document

Config = Annotated[Path, typer.Option(help="YAML file of the stage's fields; docs/stages_table.md lists them.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Override the file.")]


@json_output
def pairs(config: Config, overrides: Overrides = None, as_json: Json = False) -> Result:
    """Make preference pairs from graded completions: a right and a wrong completion of the same prompt."""
    return _run("pairs", config, overrides or [])


@json_output
def reward_model(config: Config, overrides: Overrides = None, as_json: Json = False) -> Result:
    """Train a Bradley-Terry reward model on preference pairs. The same command resumes a run that was stopped."""
    return _run("reward-model", config, overrides or [])


@json_output
def step_labels(config: Config, overrides: Overrides = None, as_json: Json = False) -> Result:
    """Label the steps of solutions by roll-outs (Math-Shepherd): how often is a right answer reached from this step?

    The same command resumes a run that was stopped.
    """
    return _run("step-labels", config, overrides or [])


@json_output
def prm(config: Config, overrides: Overrides = None, as_json: Json = False) -> Result:
    """Train a process reward model on labelled steps. The same command resumes a run that was stopped."""
    return _run("prm", config, overrides or [])


def _run(kind: str, path: Path, overrides: list[str]) -> Result:
    from verigym.datasets_cfg.yamlfile import checked, read_document
    from verigym.trainer.config.overrides import located, overriding
    from verigym.trainer.pipelines.checks import refuse_stage_on_this_machine, refuse_unstartable_stage
    from verigym.trainer.pipelines.stage_kinds import KINDS, figures

    document = overriding(read_document(path), overrides)
    _refuse_references(document)
    config = checked(KINDS[kind].config_type(), document.fields, document)
    load_torch()
    with resumable(), located(document):
        refuse_unstartable_stage(config)
        refuse_stage_on_this_machine(config)
        product = KINDS[kind].run(config)
    found = figures(kind, product.parent)
    for name, value in found.items():
        print(f"{name} {value:.4g}")
    print(f"made: {product}")
    return Result(ExitCode.OK, {"figures": found, "product": product})


def _refuse_references(document: Document) -> None:
    """Refuse `stage:NAME` in a stage that runs by itself.

    Raises:
        UsageError: a field holds one; the message names its place.
    """
    from verigym.trainer.pipelines.plan import REFERENCE

    for name, value in document.fields.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text.startswith(REFERENCE):
                raise UsageError(
                    f"{document.place((name,))}: field {name!r}: {text!r} names a stage of a pipeline, and this command "
                    "runs one stage alone; give the path of what that stage made, or use `verigym pipeline run`"
                )
