r"""Random, mutilated and known bad strings: a verdict within the limit, whatever is written.

The suite runs a few thousand; the long run of 100,000 is `python tests/envs/math/test_fuzz.py 100000` or `MATH_FUZZ=100000`.
"""

import os
import sys
from pathlib import Path

import pytest
from cpu_time import within
from symbolic_cpu import workers_cpu_s

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))

from mathgen.hostile import known_bad, mutilated, soup
from mathgen.text import seeded

from verigym.envs import Score, Status, UsageError
from verigym.envs.math.environment import MathEnvironment

COUNT = int(os.environ.get("MATH_FUZZ", "1000"))
SLOW_S = 2.0  # of CPU: without the symbolic worker nothing may take this long
GOLDS = (
    "5", r"\frac{3}{4}", r"2\sqrt{5}", "x^2+3x-4", r"\left(1, -2\right)", r"\{-3, 3\}", r"[0, \infty)", r"\frac{\pi}{6}",
    "5+2i", "0.0011_{2}",
    r"x = 7", r"y = 2x + 3", r"\text{odd}", r"\text{(B)}", r"75^\circ", r"25\%", r"\$12.50", r"3:1", "506_7", "1{,}234",
    "12:30", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
    r"1 \pm \sqrt{2}", r"(-\infty, 1) \cup [2, 3)", "1, 2, 3", r"x > 3",
    r"12 \text{ cm}^2", r"\sin 2x", r"n!", r"\log_2 7", r"\sum_{k=1}^{n} k", r"\{x \mid x > 0\}", "1.5e33", r"7\frac{3}{4}",
)  # fmt: skip
ENV = MathEnvironment(string_tier=False, symbolic=False)
PROMPTS = [ENV.prompt("What is it?", answer=gold) for gold in GOLDS]


def grade(index: int, answer: str) -> Score:
    """Grade against one of the golds; too slow is an error."""
    for _ in within(SLOW_S):
        score = ENV.score(PROMPTS[index % len(GOLDS)], rf"\boxed{{{answer}}}")
    assert score.status is not Status.ERROR, f"{GOLDS[index % len(GOLDS)]!r} against {answer[:300]!r}: {score.error}"
    assert "grader raise" not in score.reason, f"{answer[:300]!r}: {score.reason}"  # a crash is graded as a limit
    return score


def grade_as_gold(gold: str) -> None:
    """Grade against a broken gold: a verdict, or the error that says so."""
    for _ in within(SLOW_S):
        try:
            score = ENV.score(ENV.prompt("What is it?", answer=gold), r"\boxed{5}")
        except UsageError:
            continue
        assert score.error is None or score.error.kind == "gold_invalid", f"{gold[:300]!r}: {score.error}"


def fuzz(start: int, stop: int) -> int:
    """Grade random strings; return how many were called right."""
    accepted = 0
    for number in range(start, stop):
        index = seeded("fuzz", number).randrange(len(GOLDS))
        answer = soup(str(number)) if number % 2 else mutilated(GOLDS[index], str(number))
        accepted += grade(index, answer).status is Status.CORRECT
        if number % 10 == 0:
            grade_as_gold(answer)
    return accepted


def test_random_and_mutilated_strings_get_a_verdict() -> None:
    accepted = fuzz(0, COUNT)
    assert accepted < COUNT / 10  # some mutilations only move a space


@pytest.mark.parametrize("name", known_bad())
def test_what_has_hung_or_crashed_graders_gets_a_verdict(name: str) -> None:
    text = known_bad()[name]
    for index in range(0, len(GOLDS), 6 if len(text) < 20_000 else 17):
        grade(index, text)
    grade_as_gold(text)


@pytest.mark.parametrize(
    "name", ["power tower", "deeper tower", "huge factorial", "series of 800 terms", "nested logs", "200 braces"]
)
def test_with_the_worker_too_a_call_keeps_its_limit(name: str) -> None:
    env = MathEnvironment(string_tier=False, symbolic_timeout_s=0.5)
    env.prepare()
    for gold in ("1", "x", r"\sqrt{2}"):
        for _ in within(8, workers_cpu_s):
            score = env.score(env.prompt("What is it?", answer=gold), rf"\boxed{{{known_bad()[name]}}}")
            assert score.status in (Status.INCORRECT, Status.LIMIT)


def test_bad_golds_against_themselves_get_a_verdict() -> None:
    env = MathEnvironment(symbolic=False)
    for text in known_bad().values():
        for _ in within(SLOW_S):
            try:
                env.score(env.prompt("What is it?", answer=text), rf"\boxed{{{text}}}")
            except UsageError:
                continue


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for begin in range(0, total, 5000):
        right = fuzz(begin, min(begin + 5000, total))
        print(f"{begin:7d}: {right} accepted", flush=True)
