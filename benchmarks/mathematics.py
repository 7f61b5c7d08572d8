r"""Grading mathematics through `env.score` against Math-Verify's parse + verify, both on one and the same core.

    python benchmarks/mathematics.py [--quick] [--data DIR] [--count N] [--repeats N]

Sets: `numeric` (made here), `gsm8k` (real golds and solutions, half against another row's gold), `math_right` and `math_wrong`
(MATH solutions against their own golds and against others'). Every repeat has items of its own, so that no cache is measured;
figures are medians over the repeats. Both sides run in this process, one call at a time, pinned to one core with what they
start. The last line is one JSON object: how many times quicker than the peer, by set; our p99 over our median; our slowest
call in seconds. The file is not called math.py, because Python puts a script's folder first on its path, where every
`import math` would find it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import verigym
from verigym.envs.extraction.methods import last_box
from verigym.envs.isolated import client

DATA = Path(__file__).resolve().parents[2] / "shared/data"
OWN = [
    r"\frac{3}{4}",
    r"2\sqrt{5}",
    r"x^2+3x-4",
    r"\left(1, -2\right)",
    r"\{-3, 3\}",
    r"[0, \infty)",
    r"\frac{\pi}{6}",
    r"5+2i",
]
TARGETS = {"numeric": 10.0, "gsm8k": 10.0, "math": 3.0}
TAIL_TARGET = 100.0


class Item(NamedTuple):
    """One completion with its gold."""

    prompt: str
    gold: str
    completion: str


class Run(NamedTuple):
    """One pass over items, in seconds a call."""

    mean: float
    median: float
    p99: float
    slowest: float
    accepted: int


def numeric(count: int) -> list[Item]:
    """Short numeric answers: integers, decimals, fractions, percentages; half of them right."""
    rng = random.Random("benchmark/numeric")
    items = []
    for index in range(count):
        a, b = rng.randint(-999, 9999), rng.randint(2, 99)
        gold = rng.choice([str(a), f"{a:,}", f"{a / 100:.2f}", rf"\frac{{{a}}}{{{b}}}", rf"{b}\%"])
        other = str(rng.randint(10_000, 99_999))
        items.append(Item(f"Task {index}?", gold, rf"We find that the answer is \boxed{{{gold if index % 2 else other}}}."))
    return items


def gsm8k(path: Path, count: int) -> list[Item]:
    """Real questions, solutions and golds of GSM8K, the answer in a box; every second against another row's gold."""
    solved = [(row["question"], *row["answer"].rsplit("####", 1)) for row in _rows(path)]
    chosen = random.Random("benchmark/gsm8k").sample(solved, min(count, len(solved)))
    items = []
    for index, (question, work, answer) in enumerate(chosen):
        gold = chosen[index - 1][2].strip() if index % 2 else answer.strip()
        items.append(Item(question, gold, rf"{work.strip()} The answer is \boxed{{{answer.strip()}}}."))
    return items


def latex(path: Path, count: int) -> list[Item]:
    """MATH solutions, whose answers are LaTeX, each against its own gold; golds of our own where the file is absent."""
    if not path.exists():
        golds = OWN * math.ceil(count / len(OWN))
        return [Item(f"Task {i}?", gold, rf"Therefore \boxed{{{gold}}}.") for i, gold in enumerate(golds)]
    found = ((row["problem"], last_box(row["solution"]), row["solution"]) for row in _rows(path))
    items = [Item(problem, gold, text) for problem, gold, text in found if gold and any(c in gold for c in "\\^_(,")]
    return random.Random("benchmark/math").sample(items, min(count, len(items)))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def wrong(items: list[Item]) -> list[Item]:
    """Each completion against another item's gold, so that no tier can stop at equal text."""
    return [item._replace(gold=other.gold) for item, other in zip(items, [*items[1:], items[0]], strict=True)]


def ours(item: Item) -> bool:
    """Grade as a user would, the making of the prompt included."""
    prompt = ENV.prompt(item.prompt, answer=item.gold)
    return ENV.score(prompt, item.completion).reward == 1


def peer(item: Item) -> bool:
    """Grade as Math-Verify's documentation does."""
    return bool(verify(parse(rf"\boxed{{{item.gold}}}"), parse(item.completion)))


def measure(grade: Callable[[Item], bool], items: Sequence[Item]) -> Run:
    """Grade the items one after the other."""
    accepted, seconds = 0, []
    for item in items:
        before = time.perf_counter()
        accepted += grade(item)
        seconds.append(time.perf_counter() - before)
    seconds.sort()
    p99 = seconds[math.ceil(0.99 * len(seconds)) - 1]
    return Run(statistics.fmean(seconds), statistics.median(seconds), p99, seconds[-1], accepted)


def middle(runs: Sequence[Run]) -> Run:
    """Return the medians over the repeats; of the slowest calls the slowest, of what was accepted the sum."""
    mean, median, p99 = (statistics.median(run[field] for run in runs) for field in range(3))
    return Run(mean, median, p99, max(run.slowest for run in runs), sum(run.accepted for run in runs))


def parts(items: list[Item], repeats: int) -> list[list[Item]]:
    """Cut into as many equal parts as there are repeats."""
    size = len(items) // repeats
    return [items[index * size : (index + 1) * size] for index in range(repeats)]


def sets_of(data: Path, count: int, repeats: int) -> dict[str, list[list[Item]]]:
    """Return the items, set by set and repeat by repeat."""
    tex = parts(latex(data / "math/math_test_5000.jsonl.gz", count * repeats), repeats)
    sets = {"numeric": parts(numeric(count * repeats), repeats)}
    if (data / "gsm8k/test.jsonl.gz").exists():
        sets["gsm8k"] = parts(gsm8k(data / "gsm8k/test.jsonl.gz", count * repeats), repeats)
    return {**sets, "math_right": tex, "math_wrong": [wrong(part) for part in tex]}


def main(data: Path, count: int, repeats: int) -> None:
    sets = sets_of(data, count, repeats)
    ENV.prepare()
    client.warm_up()
    for grade in (ours, peer):
        for items in sets.values():
            grade(items[0][0])  # what is imported late
    core, load = min(os.sched_getaffinity(0)), os.getloadavg()[0]
    place = data if data.exists() else "golds of our own"
    print(f"both on core {core}, {count} items a set and repeat, medians of {repeats} repeats, load {load:.2f}; {place}")
    print(
        f"{'set':12s} {'ours ms':>9s} {'peer ms':>9s} {'times':>7s} {'our median':>11s} {'our p99':>9s} {'p99/median':>11s} "
        f"{'our max':>9s} {'accepted':>12s}"
    )
    found: dict[str, tuple[Run, Run]] = {}
    for name, repeated in sets.items():
        # Turn and turn about, so that what else the machine does falls on both.
        runs = [(measure(ours, items), measure(peer, items)) for items in repeated]
        mine, theirs = found[name] = middle([run[0] for run in runs]), middle([run[1] for run in runs])
        cells = f"{mine.mean * 1e3:9.3f} {theirs.mean * 1e3:9.3f} {theirs.mean / mine.mean:7.2f} {mine.median * 1e3:11.3f}"
        tail = f"{mine.p99 * 1e3:9.3f} {mine.p99 / mine.median:11.1f} {mine.slowest * 1e3:9.1f}"
        print(f"{name:12s} {cells} {tail} {mine.accepted:5d} / {theirs.accepted:4d}")
    ratios = {name: theirs.mean / mine.mean for name, (mine, theirs) in found.items()}
    both = [found["math_right"], found["math_wrong"]]
    ratios["math"] = sum(theirs.mean for _, theirs in both) / sum(mine.mean for mine, _ in both)
    tails = {f"{name}_p99_over_median": mine.p99 / mine.median for name, (mine, _) in found.items()}
    slowest = max(mine.slowest for mine, _ in found.values())
    print(f"targets: at least {TARGETS} times the peer; p99 at most {TAIL_TARGET:g} medians")
    print(
        json.dumps(
            {**{name: round(value, 3) for name, value in {**ratios, **tails}.items()}, "slowest_call_s": round(slowest, 4)}
        )
    )


if __name__ == "__main__":
    # One thread a side: libraries that bring their own would else use what the core's neighbours have left.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before anything is started, so that workers inherit it
    from math_verify import parse, verify

    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="few items, one repeat")
    arguments.add_argument("--data", type=Path, default=DATA, help="folder that holds gsm8k and math")
    arguments.add_argument("--count", type=int, default=250, help="items a set and repeat")
    arguments.add_argument("--repeats", type=int, default=3)
    given = arguments.parse_args()
    ENV = verigym.load("math")
    main(given.data, 30 if given.quick else given.count, 1 if given.quick else given.repeats)
