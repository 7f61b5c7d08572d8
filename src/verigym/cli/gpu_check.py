"""`verigym gpu-check`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.loading import load_torch
from verigym.exit_codes import ExitCode


@json_output
def gpu_check(
    out: Annotated[Path, typer.Option(help="The report, JSON: figures, versions and what broke; nothing of you.")] = Path(
        "gpu-check.json"
    ),
    only: Annotated[list[str] | None, typer.Option(metavar="CHECK", help="This check alone. May be repeated.")] = None,
    as_json: Json = False,
) -> Result:
    """Check on this machine's GPU what cannot be checked on a CPU: CUDA graphs, bf16, kernels, memory, NCCL, vLLM.

    It takes ten minutes at most.

    Exit code: 0 all checks that ran have passed, 1 a check has failed, 2 no GPU or a mistake in the call.
    """
    from rich.table import Table
    from rich.text import Text

    from verigym.envs.console import print_table
    from verigym.envs.contract.errors import UsageError
    from verigym.grade.manifest import versions
    from verigym.grade.out_file import write_atomically

    load_torch()
    from verigym.trainer.gpu_check.checks import CHECKS
    from verigym.trainer.gpu_check.job import machine, run_checks

    names = only or list(CHECKS)
    if unknown := [name for name in names if name not in CHECKS]:
        raise UsageError(f"--only: there is no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    about = {**machine(), "versions": versions()}
    if not about.get("gpus"):
        raise UsageError("torch sees no CUDA device here, so there is nothing to check")
    findings: list[dict[str, Any]] = []
    document = {"machine": about, "findings": findings}
    table = Table("check", "what must hold", "found", "s", "figures", box=None)
    for finding in run_checks(names, about["gpus"]):
        print(f"{finding.name}: {finding.outcome} {finding.why}"[:300], file=sys.stderr, flush=True)
        findings.append(asdict(finding))
        # After each check, so that a machine that goes down leaves what was found.
        write_atomically(out, document)
        figures = ", ".join(f"{name} {value:.4g}" for name, value in finding.figures.items()) or finding.why
        table.add_row(*map(Text, (finding.name, finding.claim, finding.outcome, f"{finding.seconds:.0f}", figures[:400])))
    print_table(table)
    print(f"report: {out}")
    broken = any(row["outcome"] == "broken" for row in findings)
    return Result(ExitCode.FAILED if broken else ExitCode.OK, document)
