"""Stage 2: our Lean program judges the compiled file of stage 1, in a sandbox of its own, and writes its answer to a file.

It compares the declaration in the file with the task's statement, and replays the file: Lean's kernel checks it once more.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.lean.compile import Compiled, LeanBox
from verigym.envs.lean.task import LeanLimits, LeanReference, challenge_file, solution_file
from verigym.envs.lean.verdict import (
    Answer,
    LeanVerdict,
    NoAnswer,
    of_compiling,
    of_crash,
    of_judging,
    on_trial,
    read_answer,
)
from verigym.sandbox import RunStatus

_JUDGE, _REQUEST, _ANSWER = "Judge.lean", "request.json", "answer.json"
_CHALLENGE, _SOLUTION = "Challenge.olean", "Solution.olean"
_KEPT_CHALLENGES = 256
_PRINTED_BYTES = 400
_CONTROL = ("theorem control (a b : Nat) : a + b = b + a", "by exact Nat.add_comm a b")


@functools.cache
def judge_source() -> str:
    """Return the text of the judge."""
    return importlib.resources.files("verigym.envs.lean.judge").joinpath(_JUDGE).read_text(encoding="utf-8")


def judge_hash() -> str:
    """Return the hash of the judge's source text, which is part of the key of stored verdicts."""
    return sha256_hex(judge_source())


class Checker:
    """Judges submissions with one toolchain in two stages: stage 1 compiles, stage 2 compares and replays. Thread-safe.

    Args:
        box: starts Lean.
        judge_limits: limits of stage 2.
    """

    def __init__(self, box: LeanBox, judge_limits: LeanLimits) -> None:
        self.box = box
        self.judge_limits = judge_limits
        self._challenges: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._lock = Lock()

    @property
    def title(self) -> str:
        """The toolchain, for a person."""
        return self.box.toolchain.title

    def check(self, reference: LeanReference, submission: str) -> LeanVerdict:
        """Return the verdict on `submission`, a proof that is inserted into the task's file, or a whole file.

        Raises:
            EnvironmentFailure: our side failed: the sandbox, the toolchain, or a statement that does not compile.
        """
        challenge = self.challenge(reference)
        source = solution_file(reference, submission)

        def control() -> bool:
            return self._control(reference)

        compiled = on_trial(
            lambda: self.box.compile_file(source, "Solution", reference.limits),
            lambda outcome: outcome.ended == "crash",
            control,
            "the compiler",
        )
        if compiled is None:
            return of_crash("compiler", Compiled("crash"), self.title)
        early = of_compiling(compiled, self.title)
        if early is not None:
            return early
        judged = on_trial(
            lambda: self._judge(reference, challenge, compiled.files),
            lambda outcome: isinstance(outcome, NoAnswer),
            control,
            "the judge",
        )
        if judged is None or isinstance(judged, NoAnswer):
            return of_crash("judge", compiled, self.title)
        return of_judging(judged[0], compiled, self.title, judged[1])

    def challenge(self, reference: LeanReference) -> Mapping[str, bytes]:
        """Return the grader's own module for the statement of `reference`, compiled once.

        Raises:
            EnvironmentFailure: the statement does not compile (gold_invalid), or not within its limits.
        """
        source = challenge_file(reference)
        key = sha256_hex(source)
        with self._lock:
            if key in self._challenges:
                self._challenges.move_to_end(key)
                return self._challenges[key]
        compiled = self.box.compile_file(source, "Challenge", reference.limits)
        if compiled.ended in ("error", "missing"):
            detail = " ".join(compiled.detail.split())[:300]
            raise EnvironmentFailure(
                "gold_invalid", f"lean: the statement of {reference.name!r} does not compile with {self.title}: {detail}"
            )
        if compiled.ended != "compiled":
            raise EnvironmentFailure(
                "unavailable",
                f"lean: the statement of {reference.name!r} alone runs into its limits ({compiled.ended}: {compiled.detail}); "
                "raise the reference's limits, for a slow build of Lean the option time_factor, or look whether the machine "
                "is overloaded",
                retryable=True,
            )
        with self._lock:
            self._challenges[key] = compiled.files
            while len(self._challenges) > _KEPT_CHALLENGES:
                self._challenges.popitem(last=False)
        return compiled.files

    def _judge(
        self, reference: LeanReference, challenge: Mapping[str, bytes], solution: Mapping[str, bytes]
    ) -> tuple[Answer, float] | NoAnswer:
        nonce = secrets.token_hex(16)
        request = {
            "nonce": nonce,
            "name": reference.name,
            "challenge": _CHALLENGE,
            "solution": _SOLUTION,
            "allowed_axioms": list(reference.allowed_axioms),
            "answer": _ANSWER,
        }
        own = {_JUDGE: judge_source().encode(), _REQUEST: json.dumps(request).encode()}
        files = {**challenge, **solution, **own}
        result = self.box.run(("--run", _JUDGE, _REQUEST), files, self.judge_limits, (_ANSWER,))
        if result.status not in (RunStatus.OK, RunStatus.RUNTIME):
            return NoAnswer(f"the judge ran into {result.message}")
        try:
            answer = read_answer(result.files.get(_ANSWER), result.exit_code, nonce, reference.allowed_axioms)
        except NoAnswer as error:
            # For a person who looks after the checker; nothing is decided by it.
            printed = " ".join((result.stderr or result.stdout)[-_PRINTED_BYTES:].decode("utf-8", "replace").split())
            return NoAnswer(f"{error}; it said {printed!r}" if printed else str(error))
        return answer, result.wall_s

    def _control(self, reference: LeanReference) -> bool:
        """Return whether a known good file passes both stages with the same imports and limits."""
        statement, proof = _CONTROL
        # Not the whole header: a namespace in it would give the control another name.
        imports = "\n".join(line for line in reference.header.splitlines() if line.startswith("import "))
        control = LeanReference(name="control", statement=statement, header=imports, limits=reference.limits)
        compiled = self.box.compile_file(solution_file(control, proof), "Solution", control.limits)
        if compiled.ended != "compiled":
            return False
        judged = self._judge(control, self.challenge(control), compiled.files)
        return not isinstance(judged, NoAnswer) and judged[0].accept
