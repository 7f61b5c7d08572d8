"""lean-dojo as a screen (pre-check) for theorems of a repository that it has traced; also makes tasks from such a repository.

lean-dojo does not check axioms and sets no time limit, and importing it starts git and may log in to GitHub. Therefore it runs
only if the user chooses it, in a separate process with limits, and the proofs that it passes still go through the full check.
"""

from __future__ import annotations

import importlib
import json
import logging
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.statement import split_statement
from verigym.envs.lean.task import LeanReference
from verigym.envs.lean.toolchain import Toolchain

logger = logging.getLogger("verigym.lean")
_REFUSED, _PASSED, _ABSENT = "refused", "passed", "absent"


class DojoOptions(Options):
    """Which repository, and limits of a check."""

    unsandboxed: bool = False
    """Must be true: lean-dojo runs submissions with this user's permissions and no sandbox, after the guard's check only."""
    url: str = Field(min_length=1)
    """The repository's address."""
    commit: str = Field(min_length=7)
    """The commit that was traced."""
    files: Mapping[str, str]
    """Full name of a theorem -> its file in the repository. Proofs of a theorem that is not listed skip this screen and get
    only the full check."""
    timeout_s: float = Field(300.0, gt=0)
    """Wall time of a check; lean-dojo sets none."""
    memory_mb: int = Field(16384, ge=256)
    """Memory of a check, data segment of each process."""


def task_in_file(source: str, end_line: int) -> dict[str, str]:
    """Return the reference fields of a theorem in a file. The text before the theorem becomes the header.

    Args:
        source: the file's text.
        end_line: the theorem's last line, counted from 1, as `TracedTheorem.end.line_nb` gives it.

    Raises:
        UsageError: no declaration ends on that line.
    """
    parts = split_statement("\n".join(source.splitlines()[:end_line]))
    return {"name": parts.name, "statement": parts.statement, "header": parts.before}


class DojoScreen:
    """Rejects submissions by LeanDojo's `check_proof`, each in a new process.

    Args:
        toolchain: not used; the traced repository has a toolchain of its own.
        options: options that name the repository.

    Raises:
        EnvironmentFailure: `options` does not allow running without a sandbox, or LeanDojo does not run on this Python.
    """

    options_type = DojoOptions

    def __init__(self, toolchain: Toolchain, options: DojoOptions) -> None:
        if not options.unsandboxed:
            raise EnvironmentFailure(
                "unavailable", "lean: backend dojo runs Lean outside the sandbox; set unsandboxed=true in backend_options"
            )
        if sys.version_info >= (3, 13):
            raise EnvironmentFailure("unavailable", "lean: lean-dojo needs Python below 3.13; take backend=process")
        self.options = options

    def reject(self, reference: LeanReference, submission: str) -> str | None:
        """Return a reason if LeanDojo's check refuses the proof; None if it passes, gives no answer or lacks the theorem."""
        file = self.options.files.get(reference.name)
        if file is None:
            return None
        request = [self.options.url, self.options.commit, file, reference.name, submission]
        command = [sys.executable, "-m", "verigym.envs.lean.backends.dojo", str(self.options.memory_mb)]
        try:
            ended = subprocess.run(
                command, input=json.dumps(request).encode(), capture_output=True, timeout=self.options.timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            logger.info("lean: lean-dojo gave no answer within %g s", self.options.timeout_s)
            return None
        if ended.returncode:
            last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:300]
            logger.info("lean: lean-dojo gave no answer: exit code %d: %s", ended.returncode, last)
            return None
        word = ended.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if word == _ABSENT:
            raise EnvironmentFailure("unavailable", "lean: backend dojo needs pip install 'verigym[lean]'")
        return "error: lean-dojo refuses it" if word == _REFUSED else None

    def close(self) -> None:
        """Nothing is held."""


def main(memory_mb: int) -> None:
    """Read one request as JSON from standard input, and write the answer as the last line of standard output."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb << 20,) * 2)
    url, commit, file, name, proof = json.load(sys.stdin)
    try:
        dojo: Any = importlib.import_module("lean_dojo")
    except ImportError:
        print(_ABSENT)
        return
    theorem = dojo.Theorem(dojo.LeanGitRepo(url, commit), file, name)
    print(_PASSED if dojo.check_proof(theorem, proof) else _REFUSED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
