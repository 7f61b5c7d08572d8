"""Whose fault is it? Programs of all kinds against sound tests of all kinds: no program may ever go without a verdict.

    python tests/sandbox/fuzz/blame.py --pairs 100000 --seed 0

A score without a reward is left out of the loss, so a model that could bring it about could choose what it learns from. It must
mean that we, or the author of the test, are at fault; and the tests here are sound: the reference program passes each.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import blame_programs
import blame_tests

from verigym.envs.code.environment import CodeEnvironment
from verigym.envs.contract.schema import Score

LIMITS = {"wall_s": 1.5, "cpu_s": 1, "memory_mb": 256}


def drawn(seed: str, number: int) -> tuple[blame_tests.Case, str]:
    """A test and a program, by hash: each pair can be had again without those before it."""
    rng = random.Random(hashlib.sha256(f"{seed}/{number}".encode()).digest())
    case = blame_tests.case(rng)
    if case.reference == blame_tests.IO_REFERENCE:
        return case, blame_programs.draw_io(rng, case.reference)
    return case, blame_programs.draw(rng, case.reference, case.names)


class Judge:
    """Judges by the environment itself, without the solution in the reference: the rules alone decide."""

    def __init__(self) -> None:
        self.env = CodeEnvironment(extract="all", parallel=1)

    def score(self, case: blame_tests.Case, program: str, **limits: Any) -> Score:
        """The score of a program."""
        prompt = self.env.prompt("?", tests=list(case.tests), setup=case.setup, policy=case.policy, limits={**LIMITS, **limits})
        return self.env.score(prompt, program)


def unsound() -> list[str]:
    """The tests that the reference does not pass."""
    judge, found = Judge(), []
    for case in blame_tests.sound():
        score = judge.score(case, case.reference, wall_s=30, cpu_s=30)
        if score.reward != 1:
            found.append(f"{score.reason}: {case.setup} {case.tests}")
    return found


def run(
    seed: str, numbers: range, *, seconds: float = float("inf")
) -> tuple[int, list[tuple[int, str]], collections.Counter[str]]:
    """Judge pairs, until the time is up.

    Returns:
        How many were judged; number and reason of those without a verdict; how often each status was given.
    """
    judge, statuses, without = Judge(), collections.Counter[str](), []
    start = said = time.monotonic()
    done = 0
    for number in numbers:
        case, program = drawn(seed, number)
        score = judge.score(case, program)
        statuses[score.status.value] += 1
        done += 1
        if score.reward is None:
            without.append((number, score.reason))
        now = time.monotonic()
        if now - said > 10:
            said = now
            print(
                f"{done} pairs, {done / (now - start):.0f} a second, {len(without)} without a verdict",
                file=sys.stderr,
                flush=True,
            )
            for found in without[-5:]:
                print("   ", found, file=sys.stderr, flush=True)
        if now - start > seconds:
            break
    return done, without, statuses


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first pair")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--show", type=int, help="print this pair and its verdict")
    options = parser.parse_args()
    if options.show is not None:
        case, program = drawn(options.seed, options.show)
        print(program.replace(case.reference, "<the reference>\n"))
        print("-----", case.policy, case.setup, *(str(test.get("code", test)) for test in case.tests), sep="\n")
        print("-----", Judge().score(case, program), sep="\n")
        return
    done, without, statuses = run(options.seed, range(options.first, options.first + options.pairs))
    for number, reason in without:
        print(f"pair {number}: {reason}")
    print(f"{done} pairs, {len(without)} without a verdict; {dict(statuses)}")
    sys.exit(bool(without))


if __name__ == "__main__":
    main()
