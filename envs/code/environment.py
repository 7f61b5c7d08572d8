"""The `code` environment: finds the program, builds it once, runs its tests in the sandbox and returns the score."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from verigym.envs.code.examples import examples
from verigym.envs.code.outcome import Outcome, compile_error, failure_of
from verigym.envs.code.reference import CallTest, CodeReference
from verigym.envs.code.run_all import run_tests
from verigym.envs.code.run_test import Bench
from verigym.envs.code.sandboxed import SandboxedOptions, open_named
from verigym.envs.code.verdict import decide, not_built, stamped
from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.extraction.fences import Method, find_program
from verigym.sandbox import Program, SandboxFailure
from verigym.sandbox.cores import usable_cores
from verigym.sandbox.spec import Prelude

_SOLUTION = re.compile(r"^class Solution\b", re.MULTILINE)


class CodeOptions(SandboxedOptions):
    """Options for finding a program in a completion and for running it. The tests are in the reference."""

    extract: Method = "fenced"
    """What the program is. fenced: the last fenced block. fenced_or_all: the same, or the whole text if it has no fenced block.
    all: the whole text."""
    continue_prefix: bool = False
    """Whether a completion continues the reference's `prefix`, as completions of a base model do. The program is then `prefix`
    followed by the completion."""
    parallel: int | None = Field(None, ge=1)
    """How many tests of one program run at a time; by default one per usable core."""
    max_program_kb: int = Field(1024, ge=1, le=16 * 1024)
    """A longer program is not run: the status is limit."""


class CodeEnvironment(BaseEnvironment[CodeReference, CodeOptions]):
    """Grades programs by their tests."""

    name = "code"
    version = "11"
    reference_type = CodeReference
    options_type = CodeOptions
    resources = ("sandbox",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.options.extract == "all":
            # Where the whole text is the program, `right answer, then another` is a right program and a number after it.
            self.expected_verdicts = ExpectedVerdicts(hacks="free")  # type: ignore[misc]

    def check(self) -> None:
        """Check that the sandbox works on this machine."""
        box = open_named(self.options)
        try:
            box.check()
        except SandboxFailure as error:
            raise failure_of(error) from None

    def prepare(self) -> None:
        """Start a worker of the sandbox. If that fails, each verdict reports the failure."""
        with contextlib.suppress(EnvironmentFailure):
            self.check()

    def examples(self) -> Sequence[Prompt]:
        """Return a task for each type of test."""
        return tuple(self.prompt(text, **reference) for text, reference in examples())

    def gold(self, prompt: Prompt) -> str | None:
        """Return the reference's solution, formatted so that the options find it, or None if the reference has no solution."""
        reference = self.reference(prompt)
        program = reference.solution
        if program is None:
            return None
        if self.options.continue_prefix:
            if not program.startswith(reference.prefix):
                return None
            program = program[len(reference.prefix) :]
        return program if self.options.extract == "all" else _fenced(program, reference.language)

    def judge(self, prompt: Prompt, reference: CodeReference, completion: Completion) -> Score:
        """Find the program and run its tests."""
        program = self.find(completion, reference)
        if isinstance(program, Score):
            return program
        outcomes = self.run(program, reference)
        verdict = not_built(outcomes) if isinstance(outcomes, Outcome) else decide(reference, outcomes)
        return stamped(verdict, reference, program)

    def find(self, completion: Completion, reference: CodeReference) -> str | Score:
        """Return the program in `completion`, or the verdict if there is no program to run."""
        found = find_program(completion.text, reference.language, self.options.extract)
        if found.program is None:
            if completion.cut_off:
                return Score.truncated(reason=f"cut off by the token limit: {found.reason}")
            return Score.no_answer(reason=found.reason)
        # A lone surrogate cannot be written to a file; in its place stands what every editor would show.
        program = found.program.encode("utf-8", "replace").decode()
        if self.options.continue_prefix:
            program = reference.prefix + program
        size_kb = len(program.encode("utf-8", "surrogateescape")) / 1024
        if size_kb > self.options.max_program_kb:
            reason = f"the program has {size_kb:.0f} KB, over {self.options.max_program_kb}"
            return stamped(Score.limit(reason=reason), reference, program)
        return program

    def run(self, source: str, reference: CodeReference, until: float = math.inf) -> list[Outcome | None] | Outcome:
        """Build the program `source`, run its tests and return their outcomes.

        Args:
            source: the program.
            reference: the tests and their limits.
            until: `time.monotonic()` value after which no test except the first is started.

        Returns:
            A list with the outcome of each test, which is None if the test no longer matters or was not started. If the
            program could not be built, a single outcome that says why.

        Raises:
            EnvironmentFailure: the sandbox cannot work on this machine, or failed while it built the program.
        """
        box = open_named(self.options)
        written = Program(source=source, language=reference.language, prelude=_prelude(source, reference))
        try:
            program, result = box.build(written)
        except SandboxFailure as error:
            raise failure_of(error) from None
        if program is None:
            return compile_error(result, reference.limits)
        return run_tests(Bench.of(box, program, reference), self.options.parallel or usable_cores(), until)


def _prelude(source: str, reference: CodeReference) -> Prelude:
    if reference.prelude is not None:
        return reference.prelude
    as_on_leetcode = any(isinstance(test, CallTest) for test in reference.tests) and _SOLUTION.search(source)
    return "leetcode" if as_on_leetcode else "none"


def _fenced(program: str, language: str) -> str:
    """Return the program in a fence that nothing inside it closes."""
    longest = max((len(run) for run in re.findall("`{3,}", program)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{program}{'' if program.endswith(chr(10)) else chr(10)}{fence}"
