"""Computes the score from the outcomes of the tests: by the first failure, or as the fraction of tests that passed."""

from __future__ import annotations

from collections.abc import Sequence

from verigym.envs.code import show
from verigym.envs.code.outcome import Outcome
from verigym.envs.code.reference import CallTest, CodeReference, Test
from verigym.envs.contract.schema import Score

ANSWER_CHARS = 20_000


def decide(reference: CodeReference, outcomes: Sequence[Outcome | None]) -> Score:
    """Return the score that follows from the `outcomes` of the tests.

    Raises:
        EnvironmentFailure: a test that decides the verdict could not be judged, because the sandbox or the test is broken.
    """
    count = len(outcomes)
    failures = [(index, outcome) for index, outcome in enumerate(outcomes) if outcome is not None and not outcome.passed]
    # In order: with all or nothing, what failed on our side after a program's failure changes nothing.
    for _, outcome in failures if reference.policy.partial else failures[:1]:
        if outcome.failure is not None:
            raise outcome.failure
    if not failures:
        score = Score.correct(reason=f"passed {_tests(count)}")
        return score.model_copy(update={"components": {"passed": 1.0}})
    index, first = failures[0]
    stop = reference.policy.stop_at_first_failure and not reference.policy.partial
    passed = index if stop else sum(outcome is not None and outcome.passed for outcome in outcomes)
    reason = f"test {index + 1} of {count} ({label_of(reference.tests[index])}): {first.reason}"
    if reference.policy.partial and passed:
        score = Score.partial(passed / count, reason=f"passed {passed} of {_tests(count)}; {reason}")
    elif first.limit:
        score = Score.limit(reason=reason)
    else:
        score = Score.incorrect(reason=reason)
    return score.model_copy(update={"components": {"passed": passed / count}})


def not_built(outcome: Outcome) -> Score:
    """Return the score of a program that did not compile, or that exceeded a limit while compiling."""
    score = Score.limit(reason=outcome.reason) if outcome.limit else Score.incorrect(reason=outcome.reason)
    return score.model_copy(update={"components": {"passed": 0.0}})


def stamped(score: Score, reference: CodeReference, program: str) -> Score:
    """Return `score` with `program` as its answer. If program and tests shared a process, its reason and components say so."""
    update: dict[str, object] = {"answer": program if len(program) <= ANSWER_CHARS else program[:ANSWER_CHARS] + "\n..."}
    if reference.policy.trust == "shared":
        update["reason"] = f"trust=shared: {score.reason}"
        update["components"] = {**score.components, "trust=shared": 1.0}
    return score.model_copy(update=update)


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def label_of(test: Test) -> str:
    """Return a short description of `test` without the expected result: its call, or its type and input."""
    if isinstance(test, CallTest):
        given = [show.value(arg, 40) for arg in test.args]
        given += [f"{name}={show.value(arg, 40)}" for name, arg in test.kwargs.items()]
        return show.line(f"{test.function}({', '.join(given)})", 100)
    stdin = getattr(test, "stdin", "")
    return f"{test.type}, input {show.quoted(stdin, 40)}" if stdin else test.type
