"""Graders that run in this process: our own math environment, and any callable."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verigym.bench.cases import Case
from verigym.bench.verdicts import Kind, Verdict
from verigym.envs import Environment, EnvironmentFailure, Status, UsageError, load
from verigym.envs.isolated import client

_KINDS: dict[Status, Kind] = {
    Status.CORRECT: "accepted",
    Status.NO_ANSWER: "no_answer",
    Status.TRUNCATED: "no_answer",
    Status.LIMIT: "limit",
    Status.ERROR: "error",
}


class Ours:
    """Grader of a benchmark that uses the `math` environment. The measured time includes making the prompt and scoring."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._boxed: Environment = load("math", **options)
        self._last: Environment = load("math", **{**options, "extract": "last"})
        self.name = self._boxed.grader

    def start(self) -> None:
        """Start the worker process, and load everything that the first call needs, so that no measured call includes this."""
        for environment in (self._boxed, self._last):
            try:
                environment.check()
                if getattr(environment.options, "symbolic", False):
                    client.warm_up()
            except EnvironmentFailure as failure:
                raise UsageError(f"environment 'math' cannot be used here: {failure.message}") from None
            getattr(environment, "prepare", lambda: None)()
            for prompt in getattr(environment, "examples", lambda: ())():
                environment.score(prompt, str(environment.gold(prompt)))

    def grade(self, case: Case) -> Verdict:
        """Return the verdict on the completion of `case`. At level `completion_unboxed`, the last answer in the text counts."""
        environment = self._last if case.level == "completion_unboxed" else self._boxed
        start = time.perf_counter()
        try:
            prompt = environment.prompt(case.question, answer=case.golds[0] if len(case.golds) == 1 else case.golds)
        except UsageError as error:
            return Verdict("error", str(error), time.perf_counter() - start)
        score = environment.score(prompt, case.completion)
        return Verdict(_KINDS.get(score.status, "rejected"), score.reason, time.perf_counter() - start)

    def close(self) -> None:
        """Do nothing: the worker processes end with this process."""


class InProcess:
    """Grader of a benchmark that calls a function `(gold, answer) -> bool` in the main thread of this process.

    The function gets gold and answer as they stand in the file.
    """

    def __init__(self, target: str) -> None:
        self.name = target
        self._call = resolve(target)

    def start(self) -> None:
        """Nothing to do: the module has been imported."""

    def grade(self, case: Case) -> Verdict:
        """Return the verdict on `case`. The callable is called with one gold after another until it accepts a gold."""
        start = time.perf_counter()
        kind, reason = ask(self._call, case.golds, case.answer)
        return Verdict(kind, reason, time.perf_counter() - start)

    def close(self) -> None:
        """Nothing to do."""


def ask(call: Callable[[str, str], Any], golds: Sequence[str], answer: str) -> tuple[Kind, str]:
    """Call `call` with each of `golds` and `answer` until a gold is accepted; return the kind of verdict and the reason.

    An exception counts as an error. What `call` prints goes to stderr.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            for gold in golds:
                said = call(gold, answer)
                if not _is_bool(said):
                    return "error", f"it returned {type(said).__name__}; expected bool"
                if said:
                    return "accepted", ""
    except MemoryError:
        return "limit", "out of memory"
    except (Exception, SystemExit) as error:
        return "error", " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return "rejected", ""


def _is_bool(value: Any) -> bool:
    # numpy's booleans, and 0 and 1, which some graders return as a score
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool") or value in (0, 1)


def resolve(target: str) -> Callable[[str, str], Any]:
    """Return the function that `target`, written `module:function`, names. The current folder is searched last.

    Raises:
        UsageError: there is no such module or function.
    """
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"--against {target!r}: expected math-verify or module:function")
    if os.getcwd() not in sys.path:  # at the end: a file of yours called math.py must not hide Python's own
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise UsageError(f"--against {target!r}: {' '.join(f'{type(error).__name__}: {error}'.split())[:300]}") from None
    if not callable(found):
        raise UsageError(f"--against {target!r}: it is {type(found).__name__}, which cannot be called")
    return found  # type: ignore[no-any-return]
