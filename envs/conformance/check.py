"""`check_env`: checks whether an environment keeps its contract and gives the verdicts that it declares.

For every sample prompt, the completions are the gold, an empty text, an echo of the prompt, garbage and reward hacks. All are
judged in separate processes, so that the check survives a hang, a crash or excessive memory and reports it. Each completion is
judged again in a second process, and three more times in the first process: plainly, inside an event loop, and in several
threads at once. All verdicts must agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from verigym.envs.conformance.cases import Case, cases_of, judge_cases
from verigym.envs.conformance.checks import (
    agreement_rows,
    completeness_row,
    contract_rows,
    gold_row,
    raised_rows,
    score_rows,
    verdict_rows,
    worker_row,
)
from verigym.envs.conformance.client import CheckBudget, EnvironmentClient, NoReply, start_clients
from verigym.envs.conformance.episode_checks import episode_rows
from verigym.envs.conformance.report import CheckRow, Report
from verigym.envs.conformance.task_checks import task_rows
from verigym.envs.contract.base import Environment, require_environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.envs.grading.process import refuse_in_a_worker

BUDGET_S = 10.0
TOTAL_S = 300.0
MEMORY_BYTES = 4 * 2**30
JUDGINGS, STRESS_JUDGINGS = 5, 2
"""How often an ordinary completion is judged, and how often a stress case, which may take long. Each is judged once in each of
two processes. An ordinary completion is judged three more times: plainly, in an event loop and in threads."""
PATIENCE = 2
"""Judging is killed after this many times the time budget, so that the report can tell slow judging from hanging."""


def check_env(
    environment: Environment,
    prompts: Iterable[Prompt] | None = None,
    *,
    budget_s: float = BUDGET_S,
    total_s: float = TOTAL_S,
    memory_bytes: int | None = MEMORY_BYTES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Check an environment against its contract and return a report. Judging that hangs or crashes is killed and reported.

    Args:
        environment: the environment to check.
        prompts: sample tasks; by default the environment's `examples()`, or the first tasks that it generates.
        budget_s: seconds of wall time for judging one completion. Judging is killed after twice as long.
        total_s: seconds of wall time for the whole check. Completions not judged by then are reported as a failure.
        memory_bytes: limit of a judging process's address space; None for no limit, which environments that use CUDA need.
        progress: function that is called with the number of judgings done so far and their total number.

    Raises:
        UsageError: there are no sample prompts, or a limit is not positive.
    """
    require_environment(environment, "check_env")
    refuse_in_a_worker()
    for name, limit in (("budget_s", budget_s), ("total_s", total_s), ("memory_bytes", memory_bytes)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name}={limit}: expected more than 0")
    budget = CheckBudget(PATIENCE * budget_s, total_s, memory_bytes)
    with start_clients(environment, budget) as (worker, clients):
        rows = list(contract_rows(environment))
        if clients is None:
            return Report(environment.grader, (*rows, worker))
        tasks, failure = _sample_tasks(environment, clients[0], prompts)
        if failure is not None:  # nothing else can be tried
            return Report(environment.grader, (*rows, failure, worker))
        rows.append(CheckRow("prompts survive JSON", True, "the same prompt after JSON", "the same"))
        checked = _check_verdicts(environment, tasks, worker, clients, budget, budget_s, progress)
        return Report(environment.grader, (*rows, *checked))


def _check_verdicts(
    environment: Environment,
    tasks: Sequence[Prompt],
    worker: CheckRow,
    clients: tuple[EnvironmentClient, EnvironmentClient],
    budget: CheckBudget,
    budget_s: float,
    progress: Callable[[int, int], None],
) -> Iterator[CheckRow]:
    """Judge everything and generate tasks; yield the resulting rows."""
    first, second = clients
    golds = [first.gold(task) for task in tasks]
    cases: list[Case] = []
    for number, (task, gold) in enumerate(zip(tasks, golds, strict=True)):
        cases += cases_of(task, None if isinstance(gold, NoReply) else gold, stress=not number)
    total = sum(STRESS_JUDGINGS if case.stress else JUDGINGS for case in cases)
    budget.on_verdicts = lambda verdicts: progress(min(verdicts, total), total)  # episodes that are played come on top
    generated = list(task_rows(first, second))
    outcomes = judge_cases(first, cases)
    agreement = list(agreement_rows(first, second, cases, outcomes))
    yield worker_row(worker, cases, outcomes)
    yield completeness_row(cases, outcomes, budget)
    yield from agreement
    yield from raised_rows(cases, outcomes)
    failures = [gold for gold in golds if isinstance(gold, NoReply)]
    if failures or (environment.expected_verdicts.gold == "maximum" and not any(case.group == "gold" for case in cases)):
        yield gold_row(environment, failures)
    yield from verdict_rows(environment, cases, outcomes)
    yield from score_rows(environment, cases, outcomes, budget_s)
    yield from episode_rows(environment, first, second, tasks, golds)
    yield from generated


def _sample_tasks(
    environment: Environment, client: EnvironmentClient, prompts: Iterable[Prompt] | None
) -> tuple[list[Prompt], CheckRow | None]:
    """Return the sample tasks after a round trip through JSON, or the failed row that says why there are none.

    Raises:
        UsageError: neither the caller nor the environment has sample tasks.
    """
    if prompts is None:
        forms = client.samples()
        if isinstance(forms, NoReply):
            row = CheckRow("sample tasks", False, "examples() or prompt_at gives some", forms.reason, cause=forms.reason)
            return [], row
    else:
        forms = [json.loads(json.dumps(prompt.model_dump(mode="json"))) for prompt in prompts]
    if not forms:
        raise UsageError(
            f"{environment.name!r} has no sample tasks: pass prompts=[env.prompt(...), ...] or give it `examples()`"
        )
    tasks: list[Prompt] = []
    for form in forms:
        try:
            task = environment.load_prompt(form)
            problem = "" if task.model_dump(mode="json") == form else "another prompt"
        except Exception as error:
            problem = describe(error)
        if problem:
            return [], CheckRow("prompts survive JSON", False, "the same prompt after JSON", problem, f"prompt {form['key']}")
        tasks.append(task)
    return tasks, None
