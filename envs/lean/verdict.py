"""Verdicts: pure functions of how processes ended and of the file that the judge wrote. Printed output has no effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Score
from verigym.envs.lean.compile import Compiled
from verigym.envs.lean.messages import Message

LeanStatus = Literal["ACCEPT", "REJECT", "LIMIT", "UNAVAILABLE"]
REASONS = ("missing", "kind", "levels", "statement", "mentions", "axiom", "kernel", "unsafe", "unreadable")
"""What the judge may reject for; some are followed by `:NAME`."""
_REASON_CHARS = 300
_RESOURCES = ("time", "memory", "output", "file")


@dataclass(frozen=True)
class LeanVerdict:
    """Verdict on a submission, with its reason."""

    status: LeanStatus
    reasons: tuple[str, ...] = ()
    """Reasons such as `axiom:sorryAx`, `statement`, `error` or `time`. The first one is part of the verdict's label."""
    detail: str = ""
    """For a person."""
    axioms: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    toolchain: str = ""
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage."""

    @property
    def label(self) -> str:
        """`ACCEPT`, `REJECT/statement`, `LIMIT/time`."""
        return "/".join((self.status, *self.reasons[:1]))


@dataclass(frozen=True)
class Answer:
    """What the judge wrote into its file."""

    accept: bool
    reason: str
    axioms: tuple[str, ...]
    lean: str
    exported: bool = False
    """Whether the judge could not inspect the libraries' own proofs, because this Lean has only their public part."""


class NoAnswer(ValueError):
    """The judge's file holds no verdict; the message says why."""


def read_answer(content: bytes | None, exit_code: int | None, nonce: str, allowed: Collection[str]) -> Answer:
    """Return the judge's answer. It is valid only with exit code 0 and a well-formed file that contains the right nonce.

    Args:
        content: content of the answer file; None if there is no file.
        exit_code: exit code of the judge; None if a signal ended it.
        nonce: the nonce that this judge was given.
        allowed: the allowed axioms. The judge has checked the proof's axioms; those that it reports are checked again here.

    Raises:
        NoAnswer: the answer is not valid, or accepts a proof with an axiom that is not allowed.
    """
    if exit_code != 0:
        raise NoAnswer(
            "the judge was ended by a signal" if exit_code is None else f"the judge ended with exit code {exit_code}"
        )
    if content is None:
        raise NoAnswer("the judge left no answer")
    try:
        answer = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise NoAnswer("the judge's answer is no JSON") from None
    if not isinstance(answer, dict) or answer.get("nonce") != nonce or type(answer["nonce"]) is not str:
        raise NoAnswer("the judge's answer is not for this question")
    verdict, reason, axioms = answer.get("verdict"), answer.get("reason"), answer.get("axioms")
    if not isinstance(reason, str) or not isinstance(axioms, list) or not all(isinstance(name, str) for name in axioms):
        raise NoAnswer("the judge's answer lacks a reason or axioms")
    if verdict == "reject" and reason.partition(":")[0] in REASONS:
        return Answer(False, reason[:_REASON_CHARS], tuple(axioms), str(answer.get("lean", "")))
    if verdict == "accept" and reason == "" and set(axioms) <= set(allowed):
        return Answer(True, "", tuple(axioms), str(answer.get("lean", "")), answer.get("imports") == "exported")
    raise NoAnswer(f"the judge's answer contradicts itself: {verdict!r:.40}, {reason!r:.80}")


T = TypeVar("T")


def on_trial(attempt: Callable[[], T], crashed: Callable[[T], bool], control: Callable[[], bool], what: str) -> T | None:
    """Run `attempt` until it is clear whether the submission or the checker is to blame for a crash, and return its result.

    This is the crash rule: a submission must gain nothing by crashing the checker, and must not be blamed for a broken checker.

    Args:
        attempt: function that runs the submission.
        crashed: function that returns whether the result of `attempt` is a crash.
        control: function that runs a known good file and returns whether it passed.
        what: noun for the part of the checker that crashed, for the message.

    Returns:
        The first attempt that did not crash; None if it crashed twice and the control passed in between.

    Raises:
        EnvironmentFailure: the control failed too.
    """
    first = attempt()
    if not crashed(first):
        return first
    if not control():
        why = f" ({first})" if isinstance(first, NoAnswer) else ""
        raise EnvironmentFailure("backend", f"lean: {what} crashed{why}, and on a known good file, too", retryable=True)
    second = attempt()
    return None if crashed(second) else second


def of_compiling(compiled: Compiled, toolchain: str) -> LeanVerdict | None:
    """Return the verdict if stage 1 (compiling) decides it, or None if stage 2 (checking) must decide.

    Do not use it after a crash.
    """
    times = {"compile": compiled.seconds}
    common: dict[str, Any] = {"messages": compiled.messages, "toolchain": toolchain, "times": times}
    if compiled.ended == "compiled":
        return None
    status: LeanStatus = "LIMIT" if compiled.ended in _RESOURCES else "REJECT"
    return LeanVerdict(status, (compiled.ended,), compiled.detail, **common)


def of_crash(stage: str, compiled: Compiled, toolchain: str) -> LeanVerdict:
    """Return the verdict on a submission that crashed `stage` twice, while a known good file passed."""
    detail = f"the submission brought the {stage} down, twice"
    return LeanVerdict("LIMIT", ("crash",), detail, messages=compiled.messages, toolchain=toolchain)


def of_judging(answer: Answer, compiled: Compiled, toolchain: str, seconds: float) -> LeanVerdict:
    """Return the verdict that the judge's answer gives."""
    return LeanVerdict(
        "ACCEPT" if answer.accept else "REJECT",
        (answer.reason,) if answer.reason else (),
        "the libraries' own proofs were not there to be looked through" if answer.exported else "",
        axioms=answer.axioms,
        messages=compiled.messages,
        toolchain=toolchain,
        times={"compile": compiled.seconds, "judge": seconds},
    )


def to_score(verdict: LeanVerdict, proof: str | None = None) -> Score:
    """Return the binary score of `verdict`. A verdict of UNAVAILABLE has no score.

    Raises:
        EnvironmentFailure: the checker could not run.
    """
    detail = " ".join(verdict.detail.split())[:_REASON_CHARS]
    if verdict.status == "UNAVAILABLE":
        raise EnvironmentFailure("unavailable", detail or "lean: not available")
    if verdict.status == "ACCEPT":
        axioms = ", ".join(sorted(verdict.axioms)) or "no axioms"
        reason = "; ".join(filter(None, (f"accepted by {verdict.toolchain}", axioms, detail)))
        return Score.correct(answer=proof, reason=reason)
    reason = ", ".join(verdict.reasons) + (f": {detail}" if detail else "")
    if verdict.status == "LIMIT":
        return Score.limit(answer=proof, reason=reason)
    return Score.incorrect(answer=proof, reason=reason)
