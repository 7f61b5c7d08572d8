"""The Grader: how it scales over worker processes, and what it costs an item.

    python benchmarks/grader.py [--quick]

The last line is one JSON object. `scaling_2_over_1`: throughput of two workers over one, on items of 2 ms of CPU (2 is perfect,
on an idle machine with two cores). `one_worker_over_direct`: time through one worker over calling `score` in a loop.
`overhead_us`: microseconds an item that one worker adds where judging costs next to nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

from verigym import BaseEnvironment, Completion, Grader, Options, Prompt, Reference, Score


class Nothing(Reference):
    """No fields."""


class Burning(BaseEnvironment[Nothing, Options]):
    """Uses 2 ms of CPU time an item."""

    name, version, reference_type = "burning", "1", Nothing
    cpu_s = 0.002

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        """Count until the time is used up: CPU time, so that a busy machine does not make the item cheaper."""
        end = time.thread_time() + self.cpu_s
        while time.thread_time() < end:
            pass
        return Score.correct()


class Trivial(Burning):
    """Uses none."""

    name = "trivial"
    cpu_s = 0.0


Items = list[tuple[Prompt, str]]


def items(environment: Burning, count: int) -> Items:
    """Different completions, because equal ones would share a verdict."""
    prompt = environment.prompt("?")
    return [(prompt, f"completion {index}") for index in range(count)]


def direct(environment: Burning, todo: Items) -> None:
    for prompt, completion in todo:
        environment.score(prompt, completion)


def timed(work: Callable[[], object], repeats: int) -> float:
    """Return the median of wall times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def through(environment: Burning, todo: Items, workers: int, repeats: int) -> float:
    """Return the median wall time through a Grader whose workers have been started."""
    with Grader(environment, workers=workers) as grader:
        grader.start()
        assert all(score.scored for score in grader.grade(todo[:8]))
        seconds = timed(lambda: grader.grade(todo), repeats)
    return seconds


def main(quick: bool) -> None:
    repeats = 1 if quick else 5
    count, many = (100, 300) if quick else (500, 3000)
    heavy, light = Burning(), Trivial()
    burning, trivial = items(heavy, count), items(light, many)
    rows = [
        ("2 ms of CPU", "direct", timed(lambda: direct(heavy, burning), repeats), count),
        ("2 ms of CPU", "1 worker", through(heavy, burning, 1, repeats), count),
        ("2 ms of CPU", "2 workers", through(heavy, burning, 2, repeats), count),
        ("trivial", "direct", timed(lambda: direct(light, trivial), repeats), many),
        ("trivial", "1 worker", through(light, trivial, 1, repeats), many),
        ("trivial", "in this process", through(light, trivial, 0, repeats), many),
    ]
    print(f"{len(os.sched_getaffinity(0))} cores, one thread a process, median of {repeats}")
    print(f"{'item':12s} {'how':16s} {'ms an item':>11s} {'items/s':>9s}")
    for item, how, seconds, number in rows:
        print(f"{item:12s} {how:16s} {seconds / number * 1e3:11.4f} {number / seconds:9.0f}")
    plain, one, two, nothing, worker, _ = [seconds for _, _, seconds, _ in rows]
    result = {
        "scaling_2_over_1": round(one / two, 3),
        "one_worker_over_direct": round(one / plain, 3),
        "overhead_us": round((worker - nothing) / many * 1e6, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="few items, one repeat")
    main(arguments.parse_args().quick)
