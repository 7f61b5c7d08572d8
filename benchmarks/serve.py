"""The service beside grading in process: items a second in batches, and how long one item takes.

    python benchmarks/serve.py [--quick]

Both sides grade the same generated `math` items with as many workers, in turns, and start from the fields of a row: prompt,
gold and completion. The last line is one JSON object:

- `batch_over_in_process`: items a second of the service over those of a Grader in this process, median of the rounds, by wall
  time. The client runs beside the service and takes its share of the cores.
- `batch_over_in_process_cpu`: the same by CPU time an item of all processes together, which a busy machine changes little.
- `p50_ms`, `p99_ms`: of one `/score` after the other on one connection; `in_process_...` of one item after the other by a
  Grader.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from verigym import Grader, load
from verigym.client import BatchItem, Client
from verigym.envs.contract.schema import sha256_hex

Row = tuple[str, str, str]
"""Prompt, gold, completion."""


def rows(count: int, salt: str) -> list[Row]:
    """Return different items of several kinds, half of them right, with solutions of some hundred words."""
    made = []
    for index in range(count):
        rng = random.Random(int(sha256_hex(f"{salt}/{index}")[:16], 16))
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        gold, wrong = rng.choice(
            [
                (str(a * b), str(a * b + 1)),
                (f"\\frac{{{a}}}{{{b}}}", f"\\frac{{{a + 1}}}{{{b}}}"),
                (f"x^2+{a}x+{b}", f"x^2+{a}x+{b + 1}"),
                (f"({a},{b})", f"({b},{a + 100})"),
            ]
        )
        thought = " ".join(f"Step {step}: we get {rng.randint(2, 9999)} and go on." for step in range(rng.randint(10, 60)))
        made.append((f"Task {salt}/{index}: find it.", gold, f"{thought} So it is \\boxed{{{rng.choice((gold, wrong))}}}."))
    return made


def item(row: Row) -> BatchItem:
    prompt, gold, completion = row
    return Client.item("math", completion, prompt=prompt, reference={"answer": gold})


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of those that it has started and that run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return own + sum(cpu_s(int(child)) for child in children)


@contextmanager
def service(workers: int) -> Iterator[str]:
    """Start a service in a process of its own, and yield its address."""
    command = [sys.executable, "-m", "verigym", "serve", "--env", "math", "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split(" on ")[1].split(";")[0]
    finally:
        process.terminate()
        process.wait(120)
        process.stdout.close()


def through_the_service(client: Client, todo: Sequence[Row]) -> float:
    start = time.perf_counter()
    answers = list(client.score_batch(map(item, todo)))
    seconds = time.perf_counter() - start
    assert len(answers) == len(todo) and all(answer.score and answer.score.scored for answer in answers)
    return seconds


def in_process(grader: Grader, todo: Sequence[Row]) -> float:
    environment = load("math")
    start = time.perf_counter()
    scores = list(grader.stream((environment.prompt(prompt, answer=gold), text) for prompt, gold, text in todo))
    seconds = time.perf_counter() - start
    assert len(scores) == len(todo) and all(score.scored for score in scores)
    return seconds


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return 1000 * statistics.median(ordered), 1000 * ordered[int(len(ordered) * 0.99)]


def main(quick: bool) -> None:
    count, rounds, singles = (400, 3, 100) if quick else (5000, 5, 1000)
    workers = min(len(os.sched_getaffinity(0)), 8)
    ratios, served, direct, spent = [], [], [], [0.0, 0.0]
    with Grader(load("math"), workers=workers) as grader, service(workers) as url, Client(url) as client:
        grader.start()
        while not client.ready():
            time.sleep(0.1)
        warm = rows(50, "warm")
        in_process(grader, warm)
        through_the_service(client, warm)
        for number in range(rounds):
            todo = rows(count, f"round {number}")
            start = cpu_s(os.getpid())
            direct.append(count / in_process(grader, todo))
            between = cpu_s(os.getpid())
            served.append(count / through_the_service(client, todo))
            spent = [spent[0] + between - start, spent[1] + cpu_s(os.getpid()) - between]
            ratios.append(served[-1] / direct[-1])
            print(f"round {number}: in process {direct[-1]:.0f} items/s, service {served[-1]:.0f}, ratio {ratios[-1]:.2f}")
        alone, beside = [], []
        for row in rows(singles, "single"):
            start = time.perf_counter()
            client.score("math", row[2], prompt=row[0], reference={"answer": row[1]})
            alone.append(time.perf_counter() - start)
            beside.append(in_process(grader, [(f"{row[0]} again", *row[1:])]))
    figures = {
        "workers": workers,
        "items": count,
        "batch_over_in_process": round(statistics.median(ratios), 3),
        "batch_over_in_process_cpu": round(spent[0] / spent[1], 3),
        "cpu_us_an_item": round(1e6 * spent[1] / count / rounds),
        "in_process_cpu_us_an_item": round(1e6 * spent[0] / count / rounds),
        "items_a_second": round(statistics.median(served)),
        "in_process_items_a_second": round(statistics.median(direct)),
    }
    for name, taken in (("", alone), ("in_process_", beside)):
        p50, p99 = percentiles(taken)
        figures |= {f"{name}p50_ms": round(p50, 2), f"{name}p99_ms": round(p99, 2)}
    print(json.dumps(figures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    main(parser.parse_args().quick)
