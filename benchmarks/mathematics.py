r"""Grading mathematics through `env.score` against Math-Verify's parse + verify, on one core.

    python benchmarks/mathematics.py [--quick] [--data DIR]

The last line is one JSON object: how many times quicker than the peer, by set, and our slowest call in seconds. The file is
not called math.py, because Python puts a script's folder first on its path, where every `import math` would find it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import verigym
from verigym.envs.extract import last_box

DATA = Path(__file__).resolve().parents[2] / "shared/data/math/math_test_5000.jsonl.gz"
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
TARGETS = {"numeric": 10.0, "math": 3.0}


class Item(NamedTuple):
    """One completion with its gold."""

    prompt: str
    gold: str
    completion: str


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


def real(path: Path, count: int) -> list[Item]:
    """MATH solutions, whose answers are LaTeX, each against its own gold; golds of our own where the file is absent."""
    if not path.exists():
        return [
            Item(f"Task {i}?", gold, rf"Therefore \boxed{{{gold}}}.") for i, gold in enumerate(OWN * (count // len(OWN) + 1))
        ]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    found = ((row["problem"], last_box(row["solution"]), row["solution"]) for row in rows)
    latex = [Item(problem, gold, text) for problem, gold, text in found if gold and any(c in gold for c in "\\^_(,")]
    return random.Random("benchmark/math").sample(latex, min(count, len(latex)))


def wrong(items: list[Item]) -> list[Item]:
    """Each completion against another item's gold, so that no tier can stop at equal text."""
    return [item._replace(gold=other.gold) for item, other in zip(items, [*items[1:], items[0]], strict=True)]


def ours(item: Item) -> bool:
    """Grade as a user would."""
    prompt = ENV.prompt(item.prompt, answer=item.gold)
    return ENV.score(prompt, item.completion).reward == 1


def peer(item: Item) -> bool:
    """Grade as Math-Verify's documentation does."""
    return bool(verify(parse(rf"\boxed{{{item.gold}}}"), parse(item.completion)))


def measure(grade: Callable[[Item], bool], items: list[Item], repeats: int) -> tuple[float, float, int]:
    """Return the median over repeats of the mean seconds an item, the slowest call, and how many were accepted."""
    means, slowest, accepted = list[float](), 0.0, 0
    for _ in range(repeats):
        accepted, start = 0, time.perf_counter()
        for item in items:
            before = time.perf_counter()
            accepted += grade(item)
            slowest = max(slowest, time.perf_counter() - before)
        means.append((time.perf_counter() - start) / len(items))
    return statistics.median(means), slowest, accepted


def main(quick: bool, data: Path) -> None:
    count, repeats = (30, 1) if quick else (200, 3)
    latex = real(data, count)
    sets = {"numeric": numeric(count), "math_right": latex, "math_wrong": wrong(latex)}
    for grade in (ours, peer):
        for items in sets.values():
            grade(items[0])  # imports, worker processes
    print(f"one core, {count} items a set, median of {repeats}; MATH from {data if data.exists() else 'our own golds'}")
    print(f"{'set':12s} {'ours ms':>9s} {'peer ms':>9s} {'times':>7s} {'our max ms':>11s} {'accepted':>12s}")
    seconds: dict[str, tuple[float, float]] = {}
    slowest = 0.0
    for name, items in sets.items():
        (mine, my_max, my_right), (theirs, _, their_right) = measure(ours, items, repeats), measure(peer, items, repeats)
        seconds[name] = mine, theirs
        slowest = max(slowest, my_max)
        ratio = f"{theirs / mine:7.2f}"
        print(f"{name:12s} {mine * 1e3:9.3f} {theirs * 1e3:9.3f} {ratio} {my_max * 1e3:11.1f} {my_right:5d} / {their_right:4d}")
    ratios = {name: theirs / mine for name, (mine, theirs) in seconds.items()}
    both = [seconds["math_right"], seconds["math_wrong"]]
    ratios["math"] = sum(theirs for _, theirs in both) / sum(mine for mine, _ in both)
    limit = ENV.options.model_dump()["symbolic_timeout_s"]
    print(f"targets: {TARGETS}; limit of one comparison: {limit:g} s of CPU")
    print(json.dumps({**{name: round(value, 3) for name, value in ratios.items()}, "slowest_call_s": round(slowest, 4)}))


if __name__ == "__main__":
    from math_verify import parse, verify

    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="few items, one repeat")
    arguments.add_argument("--data", type=Path, default=DATA, help="math_test_5000.jsonl.gz")
    given = arguments.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ENV = verigym.load("math")
    main(given.quick, given.data)
