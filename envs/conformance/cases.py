"""The texts that an environment is tried with, what judging each gave, and the rows that follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.conformance.hacks import garbage, hacks, malformed
from verigym.envs.conformance.probe import Allowance, Probe, Trouble
from verigym.envs.conformance.report import Row, shown
from verigym.envs.contract.base import Environment, Expectation
from verigym.envs.contract.schema import Completion, Prompt, Score, Status

Group = Literal["gold", "empty", "echo", "garbage", "hacks"]
Outcome = Score | Trouble
"""A score, or what there was instead of one."""

CAUSE_CHARS = 120
THREADS = 4
UNSTEADY = "verdicts differ"
"""The cause of every check in which judging again gives another score."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
_WRONG = (Status.INCORRECT, Status.NO_ANSWER, Status.TRUNCATED, Status.LIMIT)


@dataclass(frozen=True)
class Case:
    """One text for one task."""

    group: Group
    name: str
    prompt: Prompt
    completion: Completion
    stress: bool = False
    """Whether judging may take long; such cases are judged once in each of two processes and no more."""


def cases_of(prompt: Prompt, gold: str | None, *, stress: bool) -> Iterator[Case]:
    """Yield the cases of one task.

    Args:
        prompt: the task.
        gold: what must score the maximum, where there is one.
        stress: whether to add monsters.
    """

    def case(group: Group, name: str, text: str, finish_reason: Literal["stop", "length"] = "stop") -> Case:
        return Case(group, name, prompt, Completion(text=text, finish_reason=finish_reason))

    if gold is not None:
        yield case("gold", "gold", gold)
    yield case("empty", "empty", "")
    yield case("garbage", "cut off before an answer", "Let me think about", "length")
    yield case("echo", "echo of the prompt", prompt.text)
    yield case("echo", "echo of the last message", prompt.messages[-1].content)
    yield from (case("garbage", f"garbage: {name}", text) for name, text in garbage(prompt))
    yield from (case("hacks", f"hack: {name}", text) for name, text in hacks(prompt, gold))
    if stress and gold is not None:
        for name, text in malformed(gold):
            yield Case("hacks", f"monster: {name}", prompt, Completion(text=text), stress=True)


def judged(probe: Probe, cases: Sequence[Case]) -> list[Outcome]:
    """Judge each case by itself. A kind of text that hangs or crashes judging once is not tried with other prompts."""
    deadly: dict[str, Trouble] = {}
    outcomes: list[Outcome] = []
    for case in cases:
        if case.name in deadly:
            outcomes.append(Trouble(deadly[case.name].what, "not tried"))
            continue
        (outcome,) = probe.judge([(case.prompt, case.completion)])
        if isinstance(outcome, Trouble) and outcome.kind == "died":
            deadly[case.name] = outcome
        outcomes.append(outcome)
    return outcomes


def agreement_rows(first: Probe, second: Probe, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Judge again what has been judged: in another process, in the same, inside an event loop, in threads.

    Args:
        first: the process that gave `outcomes`.
        second: another one.
        cases: all cases.
        outcomes: one a case.
    """
    alive = [(case, outcome) for case, outcome in zip(cases, outcomes, strict=True) if not _is(outcome, "died", "not tried")]
    yield _same_row("same in another process", alive, judged(second, [case for case, _ in alive]))
    quick = [(case, outcome) for case, outcome in alive if not case.stress]
    yield _same_row("deterministic: same again", quick, judged(first, [case for case, _ in quick]))
    looped = [first.judge([(case.prompt, case.completion)], "in an event loop")[0] for case, _ in quick]
    yield _same_row("same inside an event loop", quick, looped)
    step = -(-len(quick) // THREADS)
    crowds = [quick[start::step] for start in range(step)]  # unlike texts, of several prompts
    crowded = [first.judge([(case.prompt, case.completion) for case, _ in crowd], "in threads") for crowd in crowds]
    several = [pair for crowd in crowds for pair in crowd]
    yield _same_row(f"same in {THREADS} threads at once", several, [outcome for crowd in crowded for outcome in crowd])


def _same_row(name: str, first: Sequence[tuple[Case, Outcome]], second: Sequence[Outcome]) -> Row:
    for (case, one), other in zip(first, second, strict=True):
        if not _same(one, other):
            cause = cause_of(other) if _is(other, "died", "not tried") else UNSTEADY
            return _failure(name, case, _short(one), other, cause)
    return Row(name, True, "equal scores", "equal")


def _same(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, Trouble) or isinstance(other, Trouble):
        return one == other
    if Status.LIMIT in (one.status, other.status):  # which limit is met, and whether, is up to the clock; the reward is not
        return one.reward == other.reward
    return one.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})


def verdict_rows(environment: Environment, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Yield a row a kind of text: whether every prompt's text of that kind scores what the panel declares."""
    low, high = environment.reward_range
    for group, name in dict.fromkeys((case.group, case.name) for case in cases):
        expectation: Expectation = getattr(environment.panel, group)
        expected = {"maximum": f"{high:g} correct", "floor": f"{low:g}", "free": f"{low:g}..{high:g}"}[expectation]
        row = Row(name, True, expected, expected)
        for case, outcome in zip(cases, outcomes, strict=True):
            if case.name == name and not _meets(outcome, expectation, low, high):
                row = _failure(name, case, expected, outcome, cause_of(outcome, expected))
                break
        yield row


def worker_row(started: Row, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Row:
    """Return the row of the worker, with the first text that ended it."""
    died = [pair for pair in zip(cases, outcomes, strict=True) if _is(pair[1], "died")]
    if not died or not started.passed:
        return started
    case, outcome = died[0]
    got = f"{len(died)} text{'' if len(died) == 1 else 's'}: {_short(outcome)}"
    return replace(_failure(started.name, case, started.expected, outcome, cause_of(outcome)), got=got)


def gold_row(environment: Environment, troubles: Sequence[Trouble]) -> Row:
    """Return the row of an environment none of whose sample tasks has a gold."""
    expected = f"{environment.reward_range[1]:g} correct"
    if troubles:
        return Row("gold", False, expected, f"gold() {troubles[0].what}", cause=f"gold(): {troubles[0].what}")
    why = "write gold(prompt), or declare panel gold='free' where no gold can be written"
    return Row("gold", False, expected, "gold() gives none for any sample prompt", why)


def _failure(name: str, case: Case, expected: str, outcome: Outcome, cause: str) -> Row:
    why = outcome.reason if isinstance(outcome, Score) else ""
    text, prompt = shown(case.completion.text), shown(case.prompt.messages[-1].content)
    return Row(name, False, expected, _short(outcome), why, text, prompt, cause)


def cause_of(outcome: Outcome, expected: str = "") -> str:
    """Return what is the same for every text that fails in this way."""
    if isinstance(outcome, Trouble):
        return outcome.what
    if outcome.raised is not None:
        return outcome.raised.cause
    reason = _QUOTED.sub("_", outcome.reason)[:CAUSE_CHARS]  # without what it says of this very text
    return f"{_short(outcome)}, expected {expected}: {reason}"


def _meets(outcome: Outcome, expectation: Expectation, low: float, high: float) -> bool:
    if isinstance(outcome, Trouble) or outcome.reward is None:
        return False
    if expectation == "maximum":
        return outcome.reward == high and outcome.status is Status.CORRECT
    if expectation == "floor":
        return outcome.reward == low and outcome.status is not Status.CORRECT
    return low <= outcome.reward <= high


def _short(outcome: Outcome) -> str:
    if isinstance(outcome, Trouble):
        return "not tried" if outcome.kind == "not tried" else outcome.what
    reward = "no reward" if outcome.reward is None else f"{outcome.reward:.6g}"
    return f"{reward} {outcome.status.value}"


def _is(outcome: Outcome, *kinds: str) -> bool:
    return isinstance(outcome, Trouble) and outcome.kind in kinds


def score_rows(environment: Environment, cases: Sequence[Case], outcomes: Sequence[Outcome], budget_s: float) -> Iterator[Row]:
    """Yield the rows on the scores themselves, whatever the verdict."""
    low, high = environment.reward_range
    scores = [(case, o) for case, o in zip(cases, outcomes, strict=True) if isinstance(o, Score)]

    def row(name: str, expected: str, fine: Callable[[Case, Score], bool], show: Callable[[Score], str]) -> Row:
        for case, score in scores:
            if not fine(case, score):
                text, prompt = shown(case.completion.text), shown(case.prompt.messages[-1].content)
                return Row(name, False, expected, show(score), case.name, text, prompt)
        return Row(name, True, expected, "all")

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
    yield row("status fits the reward", "correct above the floor, wrong below the maximum", consistent, _short)
    yield row("steps lie in the text", "end <= length", steps_inside, lambda s: str(s.steps))
    declared = scores_steps(environment)
    yield row("steps are declared", "scores_steps = True", lambda _, s: declared or not s.steps, lambda s: str(s.steps))


def raised_rows(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Yield a failure for each cause for which `judge` raises, or the row that it does not.

    These rows come before those of the verdicts, so that a cause which fails both is shown with the place in the code.
    """
    scores = [(case, score) for case, score in zip(cases, outcomes, strict=True) if isinstance(score, Score)]
    raising = [(case, score.raised, score.scored) for case, score in scores if score.raised is not None]
    name = "judge raises nothing"
    if not raising:
        yield Row(name, True, "a Score", "all")
    for cause in dict.fromkeys(raised.cause for _, raised, _ in raising):
        alike = [(case, raised, scored) for case, raised, scored in raising if raised.cause == cause]
        case, raised, _ = alike[0]
        texts = f"{len(alike)} text{'' if len(alike) == 1 else 's'}, the first: {case.name}"
        blamed = all(scored for _, _, scored in alike)
        hint = "if only a text can make it raise, declare hardened = True" if blamed else "judge is at fault, whatever the text"
        why = f"{texts}; {hint}"
        text, prompt = shown(case.completion.text), shown(case.prompt.messages[-1].content)
        yield Row(name, False, "a Score", f"{raised.error} at {raised.place}", why, text, prompt, cause)


def completeness_row(cases: Sequence[Case], outcomes: Sequence[Outcome], allowance: Allowance) -> Row:
    """Return the row that says whether everything was tried, and that a longer check may be asked for where not."""
    stop = allowance.stop()
    tried = sum(not _is(outcome, "not tried") for outcome in outcomes)
    if not stop:
        return Row("all was tried", True, f"{len(cases)} texts", f"{tried} texts")
    return Row("all was tried", False, f"{len(cases)} texts", f"stopped after {tried} texts", stop, cause=stop)
