"""The conformance kit: does an environment keep the contract, and the panel it declares? `verigym check` prints its report.

Every sample prompt is answered with its gold, nothing, itself, garbage and the hack panel. All of it is judged in processes
of its own, in which a hang, a crash or too much memory is a finding like any other: in one, then in another, and in the
first once more, inside an event loop, and in several threads at once, which must all agree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from verigym.envs.conformance.cases import (
    Case,
    agreement_rows,
    cases_of,
    completeness_row,
    gold_row,
    judged,
    raised_rows,
    score_rows,
    verdict_rows,
    worker_row,
)
from verigym.envs.conformance.probe import Allowance, Probe, Trouble, opened
from verigym.envs.conformance.report import Cause, ConformanceError, Report, Row
from verigym.envs.conformance.tasks import task_rows
from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.envs.grading.process import refuse_in_a_worker

__all__ = ["Cause", "ConformanceError", "Report", "Row", "check_env"]

BUDGET_S = 10.0
TOTAL_S = 300.0
MEMORY_BYTES = 4 * 2**30
PATIENCE = 2
"""Times the budget after which judging is killed, so that a slow text is told apart from one that hangs."""


def check_env(
    environment: Environment,
    prompts: Iterable[Prompt] | None = None,
    *,
    budget_s: float = BUDGET_S,
    total_s: float = TOTAL_S,
    memory_bytes: int | None = MEMORY_BYTES,
) -> Report:
    """Check an environment against its contract. The report always comes: what hangs or crashes is killed, and a row.

    Args:
        environment: what to check.
        prompts: sample tasks; by default the environment's `examples()`, else the first of the tasks it generates.
        budget_s: wall time that judging one completion may take, in seconds. After twice as long it is killed.
        total_s: wall time for all of it, in seconds. What is not tried by then is a failure that says so.
        memory_bytes: address space of a process that judges; None for no limit (an environment that uses CUDA needs that).

    Raises:
        UsageError: there are no sample prompts, or a limit is not positive.
    """
    refuse_in_a_worker()
    for name, limit in (("budget_s", budget_s), ("total_s", total_s), ("memory_bytes", memory_bytes)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name}={limit}: expected more than 0")
    allowance = Allowance(PATIENCE * budget_s, total_s, memory_bytes)
    with opened(environment, allowance) as (worker, probes):
        rows = list(_contract_rows(environment))
        if probes is None:
            return Report(environment.grader, (*rows, worker))
        tasks, lost = _tasks(environment, probes[0], prompts)
        if lost is not None:  # nothing else can be tried
            return Report(environment.grader, (*rows, lost, worker))
        rows.append(Row("prompts survive JSON", True, "the same prompt after JSON", "the same"))
        return Report(environment.grader, (*rows, *_checked(environment, tasks, worker, probes, allowance, budget_s)))


def _checked(
    environment: Environment,
    tasks: Sequence[Prompt],
    worker: Row,
    probes: tuple[Probe, Probe],
    allowance: Allowance,
    budget_s: float,
) -> Iterator[Row]:
    """Yield the rows that follow from judging and from generated tasks."""
    first, second = probes
    golds = [first.gold(task) for task in tasks]
    cases: list[Case] = []
    for number, (task, gold) in enumerate(zip(tasks, golds, strict=True)):
        cases += cases_of(task, None if isinstance(gold, Trouble) else gold, stress=not number)
    generated = list(task_rows(first, second))
    outcomes = judged(first, cases)
    agreement = list(agreement_rows(first, second, cases, outcomes))
    yield worker_row(worker, cases, outcomes)
    yield completeness_row(cases, outcomes, allowance)
    yield from agreement
    yield from raised_rows(cases, outcomes)
    troubles = [gold for gold in golds if isinstance(gold, Trouble)]
    if troubles or (environment.panel.gold == "maximum" and not any(case.group == "gold" for case in cases)):
        yield gold_row(environment, troubles)
    yield from verdict_rows(environment, cases, outcomes)
    yield from score_rows(environment, cases, outcomes, budget_s)
    yield from generated


def _contract_rows(environment: Environment) -> Iterator[Row]:
    low, high = environment.reward_range
    sound = math.isfinite(low) and math.isfinite(high) and low < high
    yield Row("reward range", sound, "finite floor < maximum", f"{low}..{high}")
    frozen = bool(environment.options.model_config.get("frozen"))
    yield Row("options are frozen", frozen, "frozen=True", f"frozen={frozen}", "set model_config = ConfigDict(frozen=True)")
    identity = re.escape(f"{environment.name}@{environment.version}+")
    fits = re.fullmatch(identity + "[0-9a-f]{8}", environment.grader) is not None
    yield Row("grader id", fits, "name@version+8 hex digits of the options' hash", environment.grader)


def _tasks(environment: Environment, probe: Probe, prompts: Iterable[Prompt] | None) -> tuple[list[Prompt], Row | None]:
    """Return the sample tasks as they come out of JSON, or the row that says why there are none.

    Raises:
        UsageError: there are none to begin with.
    """
    if prompts is None:
        found = probe.samples()
        if isinstance(found, Trouble):
            row = Row("sample tasks", False, "examples() or prompt_at gives some", found.what, cause=found.what)
            return [], row
    else:
        found = [json.loads(json.dumps(prompt.model_dump(mode="json"))) for prompt in prompts]
    if not found:
        raise UsageError(
            f"{environment.name!r} has no sample tasks: pass prompts=[env.prompt(...), ...] or give it `examples()`"
        )
    tasks: list[Prompt] = []
    for form in found:
        try:
            task = environment.load_prompt(form)
            problem = "" if task.model_dump(mode="json") == form else "another prompt"
        except Exception as error:
            problem = describe(error)
        if problem:
            return [], Row("prompts survive JSON", False, "the same prompt after JSON", problem, f"prompt {form['key']}")
        tasks.append(task)
    return tasks, None
