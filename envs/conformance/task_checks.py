"""Report rows on generated tasks: does `prompt_at` always give the same tasks, and is the test split held out?

Exact resume of training and a valid test split depend on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from verigym.envs.conformance.client import EnvironmentClient, NoReply
from verigym.envs.conformance.report import CheckRow, shorten
from verigym.envs.contract.schema import canonical_json

TASKS = 64
"""Number of tasks to compare, for each seed and split."""
OVERLAP = TASKS // 2
"""If two seeds have this many consecutive tasks in common, the check concludes that they give the same tasks, shifted."""
_CHUNK = 16
_ADVICE = "draw the task from random.Random made of a hash of (seed, split, index), as GeneratedTasks does"

Task = Mapping[str, Any]


def task_rows(first: EnvironmentClient, second: EnvironmentClient) -> Iterator[CheckRow]:
    """Yield the rows of the checks of generated tasks, or none if the environment generates no tasks.

    Args:
        first: client of a process that runs the environment.
        second: client of another process with a different hash seed.
    """
    places = [("train", 0, index) for index in range(TASKS)]
    tasks = _generate(first, places)
    if tasks is None:
        return
    yield from _steady_rows(first, second, places, tasks)
    if isinstance(tasks, NoReply):
        return
    other = _generate(first, [("train", 1, index) for index in range(TASKS)])
    yield _row(
        "tasks: another seed, other tasks", "seeds 0 and 1 differ", other, lambda generated: _seed_problem(tasks, generated)
    )
    held_out = _generate(first, [("test", 0, index) for index in range(TASKS)])
    seen = {_question(task): task for task in [*tasks, *(other if isinstance(other, list) else [])]}
    yield _row("tasks: train and test share none", "no question in both", held_out, lambda generated: _leak(seen, generated))


def _steady_rows(
    first: EnvironmentClient, second: EnvironmentClient, places: Sequence[tuple[str, int, int]], tasks: list[Task] | NoReply
) -> Iterator[CheckRow]:
    """Generate again in reverse order: tasks that depend on earlier calls, or on the process, differ."""
    same, backwards = "the same (split, seed, index), the same task", list(reversed(places))
    if isinstance(tasks, NoReply):
        yield _row("tasks: the same again", same, tasks, lambda generated: None)
        return

    def problem(generated: list[Task]) -> tuple[str, str] | None:
        for at, one, other in zip(places, tasks, reversed(generated), strict=True):
            if one != other:
                what = "another task" if one["key"] != other["key"] else "the same task with other metadata"
                return what, f"prompt_at{at}: {_question_shown(one)}, then {_question_shown(other)}; {_ADVICE}"
        return None

    yield _row("tasks: the same again", same, _generate(first, backwards), problem)
    yield _row("tasks: the same in another process", same, _generate(second, backwards), problem)


def _row(
    name: str, expected: str, generated: list[Task] | NoReply | None, problem: Callable[[list[Task]], tuple[str, str] | None]
) -> CheckRow:
    if isinstance(generated, NoReply):
        return CheckRow(name, False, expected, generated.reason, cause=generated.reason)
    wrong = problem(generated or [])
    return CheckRow(name, True, expected, "all") if wrong is None else CheckRow(name, False, expected, *wrong, cause=wrong[0])


def _seed_problem(tasks: Sequence[Task], other: Sequence[Task]) -> tuple[str, str] | None:
    keys, others = [task["key"] for task in tasks], [task["key"] for task in other]
    if len(set(keys)) == 1:
        return "one task only", f"all {len(keys)} tasks of a seed are {_question_shown(tasks[0])}"
    if keys == others:
        return "the same tasks", f"prompt_at ignores its seed: two runs with other seeds train on the same tasks; {_ADVICE}"
    for shift in range(1, len(keys) - OVERLAP + 1):
        if keys[shift:] == others[:-shift] or others[shift:] == keys[:-shift]:
            return f"the same tasks, moved by {shift}", f"the seed is added to the index: two runs share their tasks; {_ADVICE}"
    return None


def _leak(seen: Mapping[str, Task], held_out: Sequence[Task]) -> tuple[str, str] | None:
    both = list(dict.fromkeys(_question(task) for task in held_out if _question(task) in seen))
    if not both:
        return None
    count = len({_question(task) for task in held_out})
    why = f"{_question_shown(seen[both[0]])} is in both: what is trained on is no held-out task"
    return f"{len(both)} of {count} questions", f"{why}; GeneratedTasks keeps them apart by the hash of the question"


def _question(task: Task) -> str:
    return canonical_json(task["messages"])


def _question_shown(task: Task) -> str:
    return shorten(str(task["messages"][-1]["content"]))


def _generate(client: EnvironmentClient, places: Sequence[tuple[str, int, int]]) -> list[Task] | NoReply | None:
    tasks: list[Task] = []
    for start in range(0, len(places), _CHUNK):
        generated = client.tasks(places[start : start + _CHUNK])
        if generated is None or isinstance(generated, NoReply):
            return generated
        tasks += generated
    return tasks
