"""Runs leanprover's comparator as a second, stricter judge of the proofs that our own judge has accepted.

Comparator builds two modules of a Lake project, the task and the submission, in its own sandbox (landrun). Then it exports the
proofs as text (with lean4export) and has Lean's kernel check the export, and optionally another kernel too. Before its first
use, comparator is tested once on a proof that it must accept and on one that it must refuse.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.options import LeanOptions
from verigym.envs.lean.task import LeanReference, challenge_file, solution_file
from verigym.envs.lean.toolchain import Toolchain
from verigym.envs.lean.verdict import LeanVerdict

_NEEDS = "it needs `lake`, `landrun` and `lean4export` on PATH, see github.com/leanprover/comparator"
_CONTROLS = (("theorem target : 1 + 1 = 2", "rfl", True), ("theorem target : 1 + 1 = 3", "by sorry", False))


def confirmed(
    options: LeanOptions, toolchain: Toolchain, reference: LeanReference, submission: str, verdict: LeanVerdict
) -> LeanVerdict:
    """Return `verdict` if comparator accepts `submission` too, and otherwise a REJECT verdict.

    Raises:
        EnvironmentFailure: comparator is missing, does not work on this machine, or took too long.
    """
    program, wall_s = os.path.expanduser(options.comparator), options.judge_wall_s
    _tried(program, options.project, toolchain, wall_s)
    if _accepts(program, options.project, reference, submission, wall_s):
        return verdict
    return replace(verdict, status="REJECT", reasons=("comparator",), detail="the comparator refuses it")


@functools.lru_cache(maxsize=8)
def _tried(program: str, project: str, toolchain: Toolchain, wall_s: float) -> None:
    if not os.access(program, os.X_OK):
        raise _unavailable(f"there is no comparator at {program}")
    for statement, proof, good in _CONTROLS:
        reference = LeanReference(name="target", statement=statement)
        if _accepts(program, project, reference, proof, wall_s) is not good:
            raise _unavailable(f"the comparator {'refuses a good' if good else 'accepts a bad'} proof")


def _unavailable(what: str) -> EnvironmentFailure:
    return EnvironmentFailure("unavailable", f"lean: {what}; {_NEEDS}")


def _accepts(program: str, project: str, reference: LeanReference, submission: str, wall_s: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="verigym-comparator-") as name:
        for file, content in project_files(project, reference, submission).items():
            Path(name, file).write_text(content, encoding="utf-8")
        command = ["lake", "env", program, "config.json"]
        try:
            ended = subprocess.run(
                command, cwd=name, stdin=subprocess.DEVNULL, capture_output=True, timeout=wall_s, check=False
            )
        except OSError as error:
            raise _unavailable(f"`lake` cannot be started ({error.strerror})") from None
        except subprocess.TimeoutExpired:
            raise EnvironmentFailure(
                "timeout", f"lean: no answer of the comparator within {wall_s:g} s", retryable=True
            ) from None
    return ended.returncode == 0


def project_files(project: str, reference: LeanReference, submission: str) -> dict[str, str]:
    """Return, by path, the files of a Lake project with the two modules that comparator compares.

    Args:
        project: folder of the project whose packages the header imports; empty for none.
        reference: the task.
        submission: the submission that our judge has accepted.
    """
    lakefile = 'name = "comparison"\n\n[[lean_lib]]\nname = "Challenge"\n\n[[lean_lib]]\nname = "Solution"\n'
    files = {}
    if project:
        root = Path(project).expanduser().resolve()
        try:
            required = json.loads((root / "lake-manifest.json").read_text(encoding="utf-8"))["name"]
            files["lean-toolchain"] = (root / "lean-toolchain").read_text(encoding="utf-8")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise _unavailable(
                f"{root} has no readable lake-manifest.json and lean-toolchain ({type(error).__name__})"
            ) from None
        lakefile += f"\n[[require]]\nname = {json.dumps(required)}\npath = {json.dumps(str(root))}\n"
    config = {
        "challenge_module": "Challenge",
        "solution_module": "Solution",
        "theorem_names": [reference.name],
        "permitted_axioms": list(reference.allowed_axioms),
    }
    return {
        **files,
        "lakefile.toml": lakefile,
        "Challenge.lean": challenge_file(reference),
        "Solution.lean": solution_file(reference, submission),
        "config.json": json.dumps(config),
    }
