"""Judges in two stages, after an optional screen: a pre-check that may only reject and is turned off when it errs."""

from __future__ import annotations

import importlib
import logging
from threading import Lock
from typing import Any, Protocol

from pydantic import ValidationError

from verigym.envs.contract.errors import EnvironmentFailure, explain
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.lean.judging import Checker
from verigym.envs.lean.options import LeanOptions
from verigym.envs.lean.task import LeanReference, challenge_file, solution_file
from verigym.envs.lean.verdict import LeanVerdict

logger = logging.getLogger("verigym.lean")

SCREENS = {
    "repl": "verigym.envs.lean.backends.repl:ReplScreen",
    "interact": "verigym.envs.lean.backends.interact:InteractScreen",
    "kimina": "verigym.envs.lean.backends.kimina:KiminaScreen",
    "dojo": "verigym.envs.lean.backends.dojo:DojoScreen",
}
"""Back end -> its screen. Each takes the toolchain and its own options."""


class Screen(Protocol):
    """A quick look at a submission."""

    def reject(self, reference: LeanReference, submission: str) -> str | None:
        """Return why `submission` is no proof, as `reason` or `reason: detail`, or None if the full check must decide.

        Raises:
            EnvironmentFailure: the screen is not available. If the screen fails on this submission only, the result is None.
        """

    def close(self) -> None:
        """End the processes that it started."""


def open_screen(options: LeanOptions, checker: Checker) -> Screen | None:
    """Return the screen (a fast pre-check that may only reject) that `options` names, or None for the back end `process`.

    Raises:
        EnvironmentFailure: the screen is not installed, or one of its options is invalid.
    """
    if options.backend == "process":
        return None
    module, _, name = SCREENS[options.backend].partition(":")
    kind = getattr(importlib.import_module(module), name)
    try:
        made: Screen = kind(checker.box.toolchain, kind.options_type(**options.backend_options))
    except ValidationError as error:
        what = f"backend_options of {options.backend!r}: {explain(error, kind.options_type.model_fields)}"
        raise EnvironmentFailure("unavailable", f"lean: {what}") from None
    return made


class Screening:
    """Judges submissions by an optional screen, a fast pre-check that may only reject, and then by the full check. Thread-safe.

    Args:
        options: options that name the screen, and the fraction of its rejections that the full check judges again.
        checker: runs the full check.
        screen: a screen to use instead of the one that `options` names.
    """

    def __init__(self, options: LeanOptions, checker: Any, screen: Screen | None = None) -> None:
        self.options = options
        self.checker = checker
        self.screen = screen or open_screen(options, checker)
        self.alarms = 0
        """Rejections that the stages did not agree with."""
        self._lock = Lock()

    def verdict(self, reference: LeanReference, submission: str) -> LeanVerdict:
        """Return the verdict on `submission`.

        Raises:
            EnvironmentFailure: our side failed.
        """
        screen = self.screen
        # In a file the submission could define what the shared process then holds for those after it.
        reason = screen.reject(reference, submission) if screen is not None and reference.mode == "slot" else None
        if reason is not None and not self._rechecks(reference, submission):
            name, _, detail = reason.partition(": ")
            return LeanVerdict("REJECT", (name,), detail, toolchain=self.checker.title)
        verdict: LeanVerdict = self.checker.check(reference, submission)
        if reason is not None and verdict.status == "ACCEPT":
            self._alarm(reason, submission)
        if verdict.status == "ACCEPT" and self.options.comparator:
            from verigym.envs.lean.backends.comparator import confirmed

            return confirmed(self.options, self.checker.box.toolchain, reference, submission, verdict)
        return verdict

    def _rechecks(self, reference: LeanReference, submission: str) -> bool:
        text = solution_file(reference, submission) + challenge_file(reference)
        return int(sha256_hex(f"recheck/{text}")[:8], 16) < self.options.recheck_share * (1 << 32)

    def _alarm(self, reason: str, submission: str) -> None:
        with self._lock:
            self.alarms += 1
            screen, self.screen = self.screen, None
        logger.error(
            "lean: the %s screen rejected (%s) a proof that Lean accepts; it is off from here on: %.200r",
            self.options.backend,
            reason,
            submission,
        )
        if screen is not None:
            screen.close()
