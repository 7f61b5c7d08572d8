"""Report rows on the environment's contract, and on the verdicts and scores of all test cases."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.conformance.cases import Case, Outcome, judge_cases
from verigym.envs.conformance.client import CheckBudget, EnvironmentClient, NoReply
from verigym.envs.conformance.report import CheckRow, shorten
from verigym.envs.contract.base import Environment, Expectation
from verigym.envs.contract.schema import Score, Status

CAUSE_CHARS = 120
THREADS = 4
UNSTEADY = "verdicts differ"
"""Cause that is reported for every check in which a second judging gives a different score."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
_WRONG = (Status.INCORRECT, Status.NO_ANSWER, Status.TRUNCATED, Status.LIMIT)


def contract_rows(environment: Environment) -> Iterator[CheckRow]:
    """Yield the rows on what the environment declares."""
    low, high = environment.reward_range
    sound = math.isfinite(low) and math.isfinite(high) and low < high
    yield CheckRow("reward range", sound, "finite floor < maximum", f"{low}..{high}")
    frozen = bool(environment.options.model_config.get("frozen"))
    yield CheckRow(
        "options are frozen", frozen, "frozen=True", f"frozen={frozen}", "set model_config = ConfigDict(frozen=True)"
    )
    identity = re.escape(f"{environment.name}@{environment.version}+")
    fits = re.fullmatch(identity + "[0-9a-f]{8}", environment.grader) is not None
    yield CheckRow("grader id", fits, "name@version+8 hex digits of the options' hash", environment.grader)


def agreement_rows(
    first: EnvironmentClient, second: EnvironmentClient, cases: Sequence[Case], outcomes: Sequence[Outcome]
) -> Iterator[CheckRow]:
    """Judge all cases again in both processes, in an event loop and in threads.

    For each of these ways, yield a row that says whether all its verdicts equal `outcomes`.

    Args:
        first: client of the process that gave `outcomes`.
        second: client of another process.
        cases: all cases.
        outcomes: the outcome of each case.
    """
    alive = [
        (case, outcome) for case, outcome in zip(cases, outcomes, strict=True) if not _has_kind(outcome, "died", "not tried")
    ]
    yield _same_row("same in another process", alive, judge_cases(second, [case for case, _ in alive]))
    quick = [(case, outcome) for case, outcome in alive if not case.stress]
    yield _same_row("deterministic: same again", quick, judge_cases(first, [case for case, _ in quick]))
    looped = [first.judge([(case.prompt, case.completion)], "in an event loop")[0] for case, _ in quick]
    yield _same_row("same inside an event loop", quick, looped)
    step = -(-len(quick) // THREADS)
    batches = [quick[start::step] for start in range(step)]  # each with different completions for several prompts
    threaded = [first.judge([(case.prompt, case.completion) for case, _ in batch], "in threads") for batch in batches]
    pairs = [pair for batch in batches for pair in batch]
    yield _same_row(f"same in {THREADS} threads at once", pairs, [outcome for batch in threaded for outcome in batch])


def _same_row(name: str, first: Sequence[tuple[Case, Outcome]], second: Sequence[Outcome]) -> CheckRow:
    for (case, one), other in zip(first, second, strict=True):
        if not same_outcome(one, other):
            cause = cause_of(other) if _has_kind(other, "died", "not tried") else UNSTEADY
            return _failure(name, case, shown_outcome(one), other, cause)
    return CheckRow(name, True, "equal scores", "equal")


def same_outcome(one: Outcome, other: Outcome) -> bool:
    """Return whether two judgings of one text agree."""
    if isinstance(one, NoReply) or isinstance(other, NoReply):
        return one == other
    if Status.LIMIT in (one.status, other.status):  # the clock decides whether and which limit is met, but not the reward
        return one.reward == other.reward
    return one.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})


def verdict_rows(environment: Environment, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Iterator[CheckRow]:
    """Yield a row for each case name, which says whether these completions get the verdict that the environment declares."""
    low, high = environment.reward_range
    for group, name in dict.fromkeys((case.group, case.name) for case in cases):
        expectation: Expectation = getattr(environment.expected_verdicts, group)
        expected = {"maximum": f"{high:g} correct", "floor": f"{low:g}", "free": f"{low:g}..{high:g}"}[expectation]
        row = CheckRow(name, True, expected, expected)
        for case, outcome in zip(cases, outcomes, strict=True):
            if case.name == name and not _meets(outcome, expectation, low, high):
                row = _failure(name, case, expected, outcome, cause_of(outcome, expected))
                break
        yield row


def worker_row(started: CheckRow, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> CheckRow:
    """Return the row on the worker process, which fails if a completion killed the process.

    It then shows the first such completion. Otherwise, or if the process could not be started, the row is `started`, which says
    how the start went.
    """
    died = [pair for pair in zip(cases, outcomes, strict=True) if _has_kind(pair[1], "died")]
    if not died or not started.passed:
        return started
    case, outcome = died[0]
    got = f"{len(died)} text{'' if len(died) == 1 else 's'}: {shown_outcome(outcome)}"
    return replace(_failure(started.name, case, started.expected, outcome, cause_of(outcome)), got=got)


def gold_row(environment: Environment, failures: Sequence[NoReply]) -> CheckRow:
    """Return a failed row, for an environment in which no sample task has a gold completion.

    Args:
        environment: the environment.
        failures: requests for a gold that had no reply; the first is reported.
    """
    expected = f"{environment.reward_range[1]:g} correct"
    if failures:
        return CheckRow("gold", False, expected, f"gold() {failures[0].reason}", cause=f"gold(): {failures[0].reason}")
    why = "write gold(prompt), or declare expected_verdicts = ExpectedVerdicts(gold='free') where no gold can be written"
    return CheckRow("gold", False, expected, "gold() gives none for any sample prompt", why)


def _failure(name: str, case: Case, expected: str, outcome: Outcome, cause: str) -> CheckRow:
    why = outcome.reason if isinstance(outcome, Score) else ""
    text, prompt = shorten(case.completion.text), shorten(case.prompt.messages[-1].content)
    return CheckRow(name, False, expected, shown_outcome(outcome), why, text, prompt, cause)


def cause_of(outcome: Outcome, expected: str = "") -> str:
    """Return a text that identifies why `outcome` failed. Completions that fail for the same reason give the same text."""
    if isinstance(outcome, NoReply):
        return outcome.reason
    if outcome.raised is not None:
        return outcome.raised.cause
    reason = _QUOTED.sub("_", outcome.reason)[:CAUSE_CHARS]  # without the parts that are specific to this completion
    return f"{shown_outcome(outcome)}, expected {expected}: {reason}"


def _meets(outcome: Outcome, expectation: Expectation, low: float, high: float) -> bool:
    if isinstance(outcome, NoReply) or outcome.reward is None:
        return False
    if expectation == "maximum":
        return outcome.reward == high and outcome.status is Status.CORRECT
    if expectation == "floor":
        return outcome.reward == low and outcome.status is not Status.CORRECT
    return low <= outcome.reward <= high


def shown_outcome(outcome: Outcome) -> str:
    """Return reward and status, or why there is none."""
    if isinstance(outcome, NoReply):
        return "not tried" if outcome.kind == "not tried" else outcome.reason
    reward = "no reward" if outcome.reward is None else f"{outcome.reward:.6g}"
    return f"{reward} {outcome.status.value}"


def _has_kind(outcome: Outcome, *kinds: str) -> bool:
    return isinstance(outcome, NoReply) and outcome.kind in kinds


def score_rows(
    environment: Environment, cases: Sequence[Case], outcomes: Sequence[Outcome], budget_s: float
) -> Iterator[CheckRow]:
    """Yield the rows on the scores' fields, whatever the verdict."""
    low, high = environment.reward_range
    scores = [(case, o) for case, o in zip(cases, outcomes, strict=True) if isinstance(o, Score)]

    def row(name: str, expected: str, fine: Callable[[Case, Score], bool], show: Callable[[Score], str]) -> CheckRow:
        for case, score in scores:
            if not fine(case, score):
                text, prompt = shorten(case.completion.text), shorten(case.prompt.messages[-1].content)
                return CheckRow(name, False, expected, show(score), case.name, text, prompt)
        return CheckRow(name, True, expected, "all")

    def consistent(_: Case, score: Score) -> bool:
        if score.reward is None:
            return True
        return not (score.status is Status.CORRECT and score.reward <= low) and not (
            score.status in _WRONG and score.reward >= high
        )

    def steps_inside(case: Case, score: Score) -> bool:
        return all(step.end <= len(case.completion.text) for step in score.steps or ())

    yield row("grader id on every score", environment.grader, lambda _, s: s.grader == environment.grader, lambda s: s.grader)
    yield row("time budget", f"at most {budget_s:g} s", lambda _, s: s.seconds <= budget_s, lambda s: f"{s.seconds:.3g} s")
    yield row("status fits the reward", "correct above the floor, wrong below the maximum", consistent, shown_outcome)
    yield row("steps lie in the text", "end <= length", steps_inside, lambda s: str(s.steps))
    declared = scores_steps(environment)
    yield row("steps are declared", "scores_steps = True", lambda _, s: declared or not s.steps, lambda s: str(s.steps))


def raised_rows(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Iterator[CheckRow]:
    """Yield a failed row for each different cause of an exception in `judge`, or one passed row if there was no exception.

    An exception also makes rows on verdicts fail. The rows on exceptions come first in the report, so that the reader sees the
    exception's location in the code before the wrong verdicts.
    """
    scores = [(case, score) for case, score in zip(cases, outcomes, strict=True) if isinstance(score, Score)]
    raising = [(case, score.raised, score.scored) for case, score in scores if score.raised is not None]
    name = "judge raises nothing"
    if not raising:
        yield CheckRow(name, True, "a Score", "all")
    for cause in dict.fromkeys(raised.cause for _, raised, _ in raising):
        alike = [(case, raised, scored) for case, raised, scored in raising if raised.cause == cause]
        case, raised, _ = alike[0]
        texts = f"{len(alike)} text{'' if len(alike) == 1 else 's'}, the first: {case.name}"
        blamed = all(scored for _, _, scored in alike)
        hint = "if only a text can make it raise, declare hardened = True" if blamed else "judge is at fault, whatever the text"
        why = f"{texts}; {hint}"
        text, prompt = shorten(case.completion.text), shorten(case.prompt.messages[-1].content)
        yield CheckRow(name, False, "a Score", f"{raised.error} at {raised.place}", why, text, prompt, cause)


def completeness_row(cases: Sequence[Case], outcomes: Sequence[Outcome], budget: CheckBudget) -> CheckRow:
    """Return the row that says whether all cases were tried, and if not, how to allow more time for the check."""
    stop = budget.stop_reason()
    tried = sum(not _has_kind(outcome, "not tried") for outcome in outcomes)
    if not stop:
        return CheckRow("all was tried", True, f"{len(cases)} texts", f"{tried} texts")
    return CheckRow("all was tried", False, f"{len(cases)} texts", f"stopped after {tried} texts", stop, cause=stop)
