"""Checks of `prompt_at`: resuming, and a held-out split that is held out, depend on what tasks it gives for which arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from verigym.envs.conformance.probe import Probe, Trouble
from verigym.envs.conformance.report import Row, shown
from verigym.envs.contract.schema import canonical_json

TASKS = 64
"""Tasks a seed and split that are looked at."""
OVERLAP = TASKS // 2
"""So many tasks in a row in common, and one seed's are another's, moved."""
_CHUNK = 16
_ADVICE = "draw the task from random.Random made of a hash of (seed, split, index), as GeneratedTasks does"

Task = Mapping[str, Any]


def task_rows(first: Probe, second: Probe) -> Iterator[Row]:
    """Yield the rows on generated tasks; none where the environment generates none.

    Args:
        first: a process that answers for the environment.
        second: another one, in which sets have another order.
    """
    places = [("train", 0, index) for index in range(TASKS)]
    tasks = _drawn(first, places)
    if tasks is None:
        return
    yield from _steady_rows(first, second, places, tasks)
    if isinstance(tasks, Trouble):
        return
    other = _drawn(first, [("train", 1, index) for index in range(TASKS)])
    yield _row("tasks: another seed, other tasks", "seeds 0 and 1 differ", other, lambda found: _seed_problem(tasks, found))
    held_out = _drawn(first, [("test", 0, index) for index in range(TASKS)])
    seen = {_question(task): task for task in [*tasks, *(other if isinstance(other, list) else [])]}
    yield _row("tasks: train and test share none", "no question in both", held_out, lambda found: _leak(seen, found))


def _steady_rows(
    first: Probe, second: Probe, places: Sequence[tuple[str, int, int]], tasks: list[Task] | Trouble
) -> Iterator[Row]:
    """Ask again, the last one first: what depends on the calls before, or on the process, gives other tasks."""
    same, backwards = "the same (split, seed, index), the same task", list(reversed(places))
    if isinstance(tasks, Trouble):
        yield _row("tasks: the same again", same, tasks, lambda found: None)
        return

    def problem(found: list[Task]) -> tuple[str, str] | None:
        for at, one, other in zip(places, tasks, reversed(found), strict=True):
            if one != other:
                what = "another task" if one["key"] != other["key"] else "the same task with other metadata"
                return what, f"prompt_at{at}: {_asked(one)}, then {_asked(other)}; {_ADVICE}"
        return None

    yield _row("tasks: the same again", same, _drawn(first, backwards), problem)
    yield _row("tasks: the same in another process", same, _drawn(second, backwards), problem)


def _row(
    name: str, expected: str, found: list[Task] | Trouble | None, problem: Callable[[list[Task]], tuple[str, str] | None]
) -> Row:
    if isinstance(found, Trouble):
        return Row(name, False, expected, found.what, cause=found.what)
    wrong = problem(found or [])
    return Row(name, True, expected, "all") if wrong is None else Row(name, False, expected, *wrong, cause=wrong[0])


def _seed_problem(tasks: Sequence[Task], other: Sequence[Task]) -> tuple[str, str] | None:
    keys, others = [task["key"] for task in tasks], [task["key"] for task in other]
    if len(set(keys)) == 1:
        return "one task only", f"all {len(keys)} tasks of a seed are {_asked(tasks[0])}"
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
    why = f"{_asked(seen[both[0]])} is in both: what is trained on is no held-out task"
    return f"{len(both)} of {count} questions", f"{why}; GeneratedTasks keeps them apart by the hash of the question"


def _question(task: Task) -> str:
    return canonical_json(task["messages"])


def _asked(task: Task) -> str:
    return shown(str(task["messages"][-1]["content"]))


def _drawn(probe: Probe, places: Sequence[tuple[str, int, int]]) -> list[Task] | Trouble | None:
    tasks: list[Task] = []
    for start in range(0, len(places), _CHUNK):
        found = probe.tasks(places[start : start + _CHUNK])
        if found is None or isinstance(found, Trouble):
            return found
        tasks += found
    return tasks
