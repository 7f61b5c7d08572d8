"""The `lean` environment: finds the proof, has it compiled and judged, and returns the score."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Sequence
from threading import Lock

from verigym.envs.contract.base import BaseEnvironment
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.judge import limits
from verigym.envs.lean.cache import VerdictCache, verdict_keys
from verigym.envs.lean.canaries import canary
from verigym.envs.lean.compile import LeanBox
from verigym.envs.lean.completion import Refused, read_submission
from verigym.envs.lean.controls import prove_sound
from verigym.envs.lean.guard import file_refusal, refusal
from verigym.envs.lean.judging import Checker, judge_hash
from verigym.envs.lean.keywords import BANNED, METAPROGRAMS
from verigym.envs.lean.options import LeanOptions
from verigym.envs.lean.screening import Screening
from verigym.envs.lean.task import LeanReference
from verigym.envs.lean.toolchain import Toolchain, find_toolchain, fits
from verigym.envs.lean.verdict import LeanVerdict, to_score

_WAIT_S = 600.0
"""Longest wait for a place where `parallel` bounds them; the Grader's own limit ends it earlier."""


class LeanEnvironment(BaseEnvironment[LeanReference, LeanOptions]):
    """Grades proofs: 1 if the kernel accepts the proof for exactly this statement with only the allowed axioms, else 0."""

    name = "lean"
    version = "2"
    reference_type = LeanReference
    options_type = LeanOptions
    resources = ("lean", "sandbox")

    def check(self) -> None:
        """Look for Lean, its libraries and the sandbox, and judge the known good and bad submissions.

        Raises:
            EnvironmentFailure: something is missing or judges wrongly; the message says what to do.
        """
        opened = _opened(self.options)
        opened.checker.box.check()
        opened.prove()

    def prepare(self) -> None:
        """Run `check` before the first verdict. If it fails, each verdict reports the failure."""
        with contextlib.suppress(EnvironmentFailure):
            self.check()

    def examples(self) -> Sequence[Prompt]:
        """Return a task or two that need no library."""
        theorems = (
            ("theorem target (a b : Nat) : a + b = b + a", "by exact Nat.add_comm a b"),
            ("theorem target : 17 * 3 = 51", "by decide"),
        )
        return tuple(
            self.prompt(
                f"Prove in Lean 4:\n```lean\n{statement} := by\n```", name="target", statement=statement, solution=proof
            )
            for statement, proof in theorems
        )

    def gold(self, prompt: Prompt) -> str | None:
        """Return the reference's solution in a fenced block, or None if the reference has no solution."""
        solution = self.reference(prompt).solution
        return None if solution is None else f"```lean4\n{solution}\n```"

    def canary(self, seed: int, index: int) -> Prompt:
        """Return a task with a false statement. A completion that is rewarded on it shows that the verifier is broken."""
        text, statement = canary(seed, index)
        return self.prompt(
            text, name="target", statement=statement, header=self.options.canary_header, metadata={"canary": "reject"}
        )

    def judge(self, prompt: Prompt, reference: LeanReference, completion: Completion) -> Score:
        """Find the proof and try it."""
        options = self.options
        submission = read_submission(
            completion.text,
            reference.mode,
            statement=reference.statement,
            header=reference.header,
            unfenced=options.unfenced,
            max_kb=options.max_submission_kb,
        )
        if isinstance(submission, Refused):
            return _refused(submission, cut_off=completion.cut_off)
        if options.guard:
            slot = reference.mode == "slot"
            words = BANNED if slot else METAPROGRAMS
            refused = (refusal if slot else file_refusal)(submission, (words | set(options.ban)) - set(options.allow))
            if refused is not None:
                return Score.incorrect(answer=submission, reason=f"format: {refused}")
        opened = _opened(options)
        opened.refuse_other_toolchain(reference, options.any_toolchain)
        return opened.score(reference, submission)

    def verdict(self, prompt: Prompt, submission: str) -> LeanVerdict:
        """Return the full verdict on a proof, with axioms, messages and times, always from a new run of Lean.

        The cache, the search for banned commands and the fast pre-check (`screening.py`) are not used.

        Raises:
            EnvironmentFailure: our side failed.
        """
        opened = _opened(self.options)
        opened.prove()
        return opened.checker.check(self.reference(prompt), submission)


def _refused(refused: Refused, *, cut_off: bool) -> Score:
    if refused.reason == "too_long":
        return Score.limit(reason=f"input: {refused.detail}")
    if refused.reason not in ("no_code", "empty"):
        return Score.incorrect(reason=f"format: {refused.detail}")
    return (
        Score.truncated(reason=f"cut off by the token limit: {refused.detail}")
        if cut_off
        else Score.no_answer(reason=refused.detail)
    )


class _Opened:
    """What one set of options stands for in this process."""

    def __init__(self, options: LeanOptions) -> None:
        self.options = options
        self.toolchain = toolchain_of(options)
        box = LeanBox(self.toolchain, options.sandbox, time_factor=options.time_factor)
        self.checker = Checker(box, options.judge_limits)
        self.cache = VerdictCache(options.cache)
        self.screening = Screening(options, self.checker)
        self._proved = False
        self._lock = Lock()

    def prove(self) -> None:
        with self._lock:
            if not self._proved:
                prove_sound(self.checker)
                self._proved = True

    def refuse_other_toolchain(self, reference: LeanReference, any_toolchain: bool) -> None:
        if not any_toolchain and not fits(reference.toolchain, self.toolchain):
            raise EnvironmentFailure(
                "unavailable",
                f"lean: the task is for {reference.toolchain}, this is {self.toolchain.title}; name another binary or project, "
                "or set any_toolchain=true",
            )

    def score(self, reference: LeanReference, submission: str) -> Score:
        policy = [self.options.backend, self.options.comparator, f"{self.options.time_factor:g}"]
        keys = verdict_keys(self.toolchain.key, judge_hash(), policy, reference, submission)
        known = self.cache.get(keys)
        if known is not None:
            return known
        deadline = time.monotonic() + _WAIT_S
        try:
            with limits.turn("lean", self.options.parallel, None, deadline):
                self.prove()
                score = to_score(self.screening.verdict(reference, submission), submission)
        except limits.NoPlace as error:
            raise EnvironmentFailure("timeout", f"lean: {error}", retryable=True) from None
        self.cache.put(keys, score)
        return score


def toolchain_of(options: LeanOptions) -> Toolchain:
    """Return the toolchain that `options` names.

    Raises:
        EnvironmentFailure: there is no such toolchain.
    """
    return find_toolchain(options.lean, options.project, options.lean_path, options.toolchain_paths)


_lock = Lock()


def _opened(options: LeanOptions) -> _Opened:
    with _lock:
        return _open(options.model_dump_json())


@functools.lru_cache(maxsize=8)
def _open(options: str) -> _Opened:
    return _Opened(LeanOptions.model_validate_json(options))
