"""The options of `lean`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from verigym.envs.contract.base import Options
from verigym.envs.lean.task import LeanLimits

Backend = Literal["process", "repl", "interact", "kimina", "dojo"]


class LeanOptions(Options):
    """Options for the Lean toolchain, the sandbox, and the content allowed in submissions.

    The statement is in the reference.
    """

    lean: str = ""
    """Path of the `lean` binary. If empty: the path in the variable LEAN4_BIN, else `lean` on PATH, else elan's `lean`."""
    project: str = ""
    """Folder of a built Lake project, such as one with Mathlib, whose packages headers may import."""
    lean_path: tuple[str, ...] = ()
    """Folders of compiled libraries, in place of those that the project's manifest names."""
    toolchain_paths: tuple[str, ...] = ()
    """More files and folders that this Lean must be able to read in the sandbox, such as the runtime that a wrapper starts."""
    any_toolchain: bool = False
    """Whether a task that names another toolchain than the one in use is judged all the same, instead of being refused."""
    sandbox: Literal["bubblewrap", "local"] = "bubblewrap"
    """Which walls: one bubblewrap a run, or warm cells."""
    backend: Backend = "process"
    """`process` judges each submission afresh. The others screen it first: a screen may reject a proof but never accept one."""
    backend_options: Mapping[str, JsonValue] = {}
    """Settings of the screen."""
    recheck_share: float = Field(0.01, ge=0, le=1)
    """Share of the screen's rejections that the full check judges again. If it accepts one, the screen is turned off."""
    comparator: str = ""
    """Path of leanprover's comparator, which then checks each proof that our judge has accepted; empty for no such check."""
    unfenced: bool = False
    """Whether a completion without any fenced block counts as the submission. Base models may write no fences."""
    guard: bool = True
    """Whether a slot with top-level commands or a banned word is refused before Lean sees it."""
    ban: tuple[str, ...] = ()
    """More words that a slot may not hold."""
    allow: tuple[str, ...] = ()
    """Words that are allowed although the guard normally bans them, such as native_decide for tasks that allow its axiom."""
    max_submission_kb: int = Field(256, ge=1, le=16 * 1024)
    """A longer submission is not compiled: the status is limit."""
    judge_wall_s: float = Field(120.0, gt=0)
    """Wall and CPU time of the judge."""
    judge_memory_mb: int = Field(8192, ge=256)
    """Memory of the judge, which loads what the statement imports."""
    time_factor: float = Field(1.0, ge=1, le=1000)
    """Factor on all wall and CPU time limits (tasks, controls and judge), for a slow build of Lean."""
    parallel: int | None = Field(None, ge=1, le=1024)
    """Most submissions under way, over all processes of this user on this machine; None for any number."""
    cache: str = ""
    """A file that keeps verdicts by toolchain, judge, statement and submission; in memory they are kept in any case."""
    canary_header: str = ""
    """Header, such as `import Mathlib`, of the false statements that training mixes in to detect a broken verifier."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.backend == "process" and self.backend_options:
            raise ValueError("backend_options are for a screen: choose one with backend")
        both = sorted(set(self.ban) & set(self.allow))
        if both:
            raise ValueError(f"{both[0]!r} is in ban and in allow")
        return self

    @property
    def judge_limits(self) -> LeanLimits:
        """Limits of stage 2."""
        return LeanLimits(wall_s=self.judge_wall_s, cpu_s=self.judge_wall_s, memory_mb=self.judge_memory_mb)
