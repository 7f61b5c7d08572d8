"""The conformance kit: does an environment keep the contract, and the panel it declares? `verigym check` prints its report.

Every sample prompt is answered with its gold, nothing, itself, garbage and the hack panel. This happens first in a worker
process, where a hang or a crash is only a finding, and then in this process: twice, in several threads at once, and inside
an event loop, which must all agree.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeVar

from verigym.envs.base import Environment, Expectation, TaskSource
from verigym.envs.blame import describe
from verigym.envs.composition import sample_tasks
from verigym.envs.conformance_report import ConformanceError, Report, Row
from verigym.envs.errors import UsageError
from verigym.envs.grading import Grader
from verigym.envs.hacks import garbage, hacks, malformed
from verigym.envs.part_scores import scores_steps
from verigym.envs.schema import Completion, Prompt, Score, Status

__all__ = ["ConformanceError", "Report", "Row", "check_env"]

Group = Literal["gold", "empty", "echo", "garbage", "hacks"]
Outcome = Score | str
"""A score, or what was raised instead of one."""

T = TypeVar("T")

GENERATED_PROMPTS = 4
THREADS = 4
_WRONG = (Status.INCORRECT, Status.NO_ANSWER, Status.TRUNCATED, Status.LIMIT)


@dataclass(frozen=True)
class _Case:
    group: Group
    name: str
    prompt: Prompt
    completion: Completion
    stress: bool = False
    """Whether judging may take long; such cases are judged once in each of two processes and no more."""


def check_env(environment: Environment, prompts: Iterable[Prompt] | None = None, *, budget_s: float = 10.0) -> Report:
    """Check an environment against its contract.

    Args:
        environment: what to check.
        prompts: sample tasks; by default the environment's `examples()`, else the first of the tasks it generates.
        budget_s: wall time that judging one completion may take.

    Raises:
        UsageError: there are no sample prompts.
    """
    tasks = list(prompts) if prompts is not None else _sample(environment)
    if not tasks:
        raise UsageError(
            f"{environment.name!r} has no sample tasks: pass prompts=[env.prompt(...), ...] or give it `examples()`"
        )
    cases = [case for number, task in enumerate(tasks) for case in _cases(environment, task, stress=not number)]
    rows = [*_contract_rows(environment), _round_trip_row(environment, tasks)]
    worker, outcomes, safe = _in_worker(environment, cases, budget_s)
    rows.append(worker)
    if safe:
        here = _serially(environment, cases)
        if outcomes:
            rows.append(_same_row("same in another process", cases, here, outcomes))
        rows += _agreement_rows(environment, cases, here)
        outcomes = here
    rows += _verdict_rows(environment, cases, outcomes)
    rows += _score_rows(environment, cases, outcomes, budget_s)
    return Report(environment.grader, tuple(rows))


def _sample(environment: Environment) -> list[Prompt]:
    tasks = list(sample_tasks(environment))
    if not tasks and isinstance(environment, TaskSource):
        tasks = [environment.prompt_at("train", 0, index) for index in range(GENERATED_PROMPTS)]
    return tasks


def _cases(environment: Environment, prompt: Prompt, *, stress: bool) -> Iterator[_Case]:
    gold = environment.gold(prompt)

    def case(group: Group, name: str, text: str, finish_reason: Literal["stop", "length"] = "stop") -> _Case:
        return _Case(group, name, prompt, Completion(text=text, finish_reason=finish_reason))

    if gold is not None:
        yield case("gold", "gold", gold)
    yield case("empty", "empty", "")
    yield case("empty", "cut off before an answer", "Let me think about", "length")
    yield case("echo", "echo of the prompt", prompt.text)
    yield case("echo", "echo of the last message", prompt.messages[-1].content)
    yield from (case("garbage", f"garbage: {name}", text) for name, text in garbage(prompt))
    yield from (case("hacks", f"hack: {name}", text) for name, text in hacks(prompt, gold))
    if stress and gold is not None:
        for name, text in malformed(gold):
            yield _Case("hacks", f"monster: {name}", prompt, Completion(text=text), stress=True)


def _contract_rows(environment: Environment) -> Iterator[Row]:
    low, high = environment.reward_range
    sound = math.isfinite(low) and math.isfinite(high) and low < high
    yield Row("reward range", sound, "finite floor < maximum", f"{low}..{high}")
    frozen = bool(environment.options.model_config.get("frozen"))
    yield Row("options are frozen", frozen, "frozen=True", f"frozen={frozen}", "set model_config = ConfigDict(frozen=True)")
    identity = re.escape(f"{environment.name}@{environment.version}+")
    fits = re.fullmatch(identity + "[0-9a-f]{8}", environment.grader) is not None
    yield Row("grader id", fits, "name@version+8 hex digits of the options' hash", environment.grader)


def _round_trip_row(environment: Environment, tasks: Sequence[Prompt]) -> Row:
    expected = "the same prompt after JSON"
    for task in tasks:
        try:
            back = environment.load_prompt(json.loads(json.dumps(task.model_dump(mode="json"))))
        except Exception as error:
            return Row("prompts survive JSON", False, expected, describe(error), f"prompt {task.key}")
        if back != task or back.key != task.key:
            return Row("prompts survive JSON", False, expected, "another prompt", f"prompt {task.key}")
    return Row("prompts survive JSON", True, expected, "the same")


def _in_worker(environment: Environment, cases: Sequence[_Case], budget_s: float) -> tuple[Row, list[Outcome], bool]:
    """Return the row, the outcomes (none if no worker starts), and whether judging in this process is safe."""
    name, expected = "works in a worker process", "starts and lives"
    with Grader(environment, workers=1, timeout_s=2 * budget_s, retries=0) as grader:
        try:
            grader.start()
        except UsageError as error:
            return Row(name, False, expected, "cannot start", str(error)), [], True
        outcomes: list[Outcome] = list(grader.grade((case.prompt, case.completion) for case in cases))
        deaths = grader.stats.worker_deaths
    why = "the checks in this process are left out, as they could hang or kill it"
    return (
        Row(name, not deaths, expected, f"{deaths} workers hung or crashed" if deaths else "lives", why),
        outcomes,
        not deaths,
    )


def _observe(environment: Environment, case: _Case) -> Outcome:
    try:
        return environment.score(case.prompt, case.completion)
    except Exception as error:
        return f"raised {describe(error)}"


def _serially(environment: Environment, cases: Iterable[_Case]) -> list[Outcome]:
    return [_observe(environment, case) for case in cases]


def _in_event_loop(environment: Environment, cases: Sequence[_Case]) -> list[Outcome]:
    async def judge_all() -> list[Outcome]:
        return _serially(environment, cases)

    # The caller may be inside a loop of its own, which only another thread is free of.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(judge_all())).result()


def _agreement_rows(environment: Environment, cases: Sequence[_Case], here: Sequence[Outcome]) -> Iterator[Row]:
    chosen = [(case, outcome) for case, outcome in zip(cases, here, strict=True) if not case.stress]
    kept, first = [case for case, _ in chosen], [outcome for _, outcome in chosen]
    yield _same_row("deterministic: same again", kept, first, _serially(environment, kept))
    yield _same_row("same inside an event loop", kept, first, _in_event_loop(environment, kept))

    def rotated(items: Sequence[T], thread: int) -> list[T]:
        start = thread * len(items) // THREADS
        return [*items[start:], *items[:start]]

    with ThreadPoolExecutor(THREADS) as pool:
        seen = list(pool.map(lambda thread: _serially(environment, rotated(kept, thread)), range(THREADS)))
    name = f"same in {THREADS} threads at once"
    rows = [_same_row(name, rotated(kept, n), rotated(first, n), outcomes) for n, outcomes in enumerate(seen)]
    yield next((row for row in rows if not row.passed), rows[0])


def _same_row(name: str, cases: Sequence[_Case], first: Sequence[Outcome], second: Sequence[Outcome]) -> Row:
    for case, one, other in zip(cases, first, second, strict=True):
        if not _same(one, other):
            return Row(name, False, _short(one), _short(other), f"{case.name}, prompt {case.prompt.key}")
    return Row(name, True, "equal scores", "equal")


def _same(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    if Status.LIMIT in (one.status, other.status):  # which limit is met, and whether, is up to the clock; the reward is not
        return one.reward == other.reward
    return one.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})


def _short(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    reward = "no reward" if outcome.reward is None else f"{outcome.reward:.6g}"
    return f"{reward} {outcome.status.value}"


def _verdict_rows(environment: Environment, cases: Sequence[_Case], outcomes: Sequence[Outcome]) -> Iterator[Row]:
    low, high = environment.reward_range
    panel = environment.panel
    names = dict.fromkeys((case.group, case.name) for case in cases)
    if panel.gold == "maximum" and ("gold", "gold") not in names:
        why = "write gold(prompt), or declare panel gold='free' where no gold can be written"
        yield Row("gold", False, f"{high:g} correct", "gold() gives none for any sample prompt", why)
    for group, name in names:
        expectation: Expectation = getattr(panel, group)
        expected = {"maximum": f"{high:g} correct", "floor": f"{low:g}", "free": f"{low:g}..{high:g}"}[expectation]
        row = Row(name, True, expected, expected)
        for case, outcome in zip(cases, outcomes, strict=True):
            if case.name == name and not _meets(outcome, expectation, low, high):
                reason = outcome.reason if isinstance(outcome, Score) else ""
                row = Row(name, False, expected, _short(outcome), f"prompt {case.prompt.key}: {reason}")
                break
        yield row


def _meets(outcome: Outcome, expectation: Expectation, low: float, high: float) -> bool:
    if isinstance(outcome, str) or outcome.reward is None:
        return False
    if expectation == "maximum":
        return outcome.reward == high and outcome.status is Status.CORRECT
    if expectation == "floor":
        return outcome.reward == low and outcome.status is not Status.CORRECT
    return low <= outcome.reward <= high


def _score_rows(
    environment: Environment, cases: Sequence[_Case], outcomes: Sequence[Outcome], budget_s: float
) -> Iterator[Row]:
    low, high = environment.reward_range
    scores = [(case, o) for case, o in zip(cases, outcomes, strict=True) if isinstance(o, Score)]

    def row(name: str, expected: str, fine: Callable[[_Case, Score], bool], show: Callable[[Score], str]) -> Row:
        for case, score in scores:
            if not fine(case, score):
                return Row(name, False, expected, show(score), f"{case.name}, prompt {case.prompt.key}")
        return Row(name, True, expected, "all")

    def consistent(_: _Case, score: Score) -> bool:
        if score.reward is None:
            return True
        return not (score.status is Status.CORRECT and score.reward <= low) and not (
            score.status in _WRONG and score.reward >= high
        )

    def steps_inside(case: _Case, score: Score) -> bool:
        return all(step.end <= len(case.completion.text) for step in score.steps or ())

    raising = [(case, score.raised) for case, score in scores if score.raised is not None]
    if raising:
        case, raised = raising[0]
        causes = len({raised.cause for _, raised in raising})
        first = f"{len(raising)} texts, {causes} causes, first {case.name}: {case.completion.text[:80]!r}"
        why = f"{first}; if only a text can make it raise, declare hardened = True"
        yield Row("judge raises nothing", False, "a Score", f"{raised.error} at {raised.place}", why)
    else:
        yield Row("judge raises nothing", True, "a Score", "all")
    yield row("grader id on every score", environment.grader, lambda _, s: s.grader == environment.grader, lambda s: s.grader)
    yield row("time budget", f"at most {budget_s:g} s", lambda _, s: s.seconds <= budget_s, lambda s: f"{s.seconds:.3g} s")
    yield row("status fits the reward", "correct above the floor, wrong below the maximum", consistent, _short)
    yield row("steps lie in the text", "end <= length", steps_inside, lambda s: str(s.steps))
    declared = scores_steps(environment)
    yield row("steps are declared", "scores_steps = True", lambda _, s: declared or not s.steps, lambda s: str(s.steps))
