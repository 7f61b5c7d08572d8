"""Properties of the math environment on generated expressions. `MATH_EXAMPLES=20` runs twenty times as many."""

import os
import random
from fractions import Fraction

import pytest
from cpu_time import within
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mathgen.golds import Gold
from mathgen.mutations import mutations
from mathgen.printer import NAMES, Expr, expression, latex, mutated, rational, same_values, spelled
from mathgen.rewrite_layout import LAYOUT
from mathgen.rewrites import rewrites

from verigym.envs import Score, Status, UsageError
from verigym.envs.math.environment import MathEnvironment

MANY = int(os.environ.get("MATH_EXAMPLES", "1"))
LIMIT_S = 5.0
ENV = MathEnvironment(string_tier=False, symbolic=False)
seeds = st.integers(0, 2**32)
PIECES = [*" 0123456789.,;:+-*/^_={}()[]|<>\\$&%!abcxyznPie√π∞½−×≤", r"\frac", r"\text{", r"\left(", r"\sqrt", r"\pm", r"\cup"]
answers = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def examples(count: int) -> settings:
    return settings(
        max_examples=count * MANY,
        derandomize=MANY == 1,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def grade(gold: str, answer: str, env: MathEnvironment = ENV) -> Score:
    for _ in within(LIMIT_S):
        score = env.score(env.prompt("What is it?", answer=gold), rf"\boxed{{{answer}}}")
    assert "grader raise" not in score.reason, f"{gold!r} against {answer!r}: {score.reason}"  # a crash counts as a limit
    return score


def accepted(gold: str, answer: str) -> bool:
    score = grade(gold, answer)
    assert score.status in (Status.CORRECT, Status.INCORRECT), f"{gold!r}, {answer!r}: {score}"
    return score.status is Status.CORRECT


def tree(rng: random.Random, depth: int, names: tuple[str, ...] = NAMES) -> Expr:
    """An expression with a value: `1/(x-x)` is none."""
    for _ in range(100):
        found = expression(rng, depth, names)
        if same_values(found, found):
            return found
    raise AssertionError("no expression has a value")


@examples(60)
@given(seeds, st.integers(0, 4))
def test_an_expression_is_itself_in_every_spelling(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    found = tree(rng, depth)
    one, other = latex(found, rng), latex(found, rng)
    assert accepted(one, one), one
    assert accepted(one, other), f"{one!r} against {other!r}"


@examples(60)
@given(seeds, st.integers(0, 4))
def test_what_has_another_value_is_refused(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    found = tree(rng, depth)
    other = mutated(found, rng)
    if same_values(found, other) is False:
        one, two = latex(found, rng), latex(other, rng)
        assert not accepted(one, two), f"{one!r} against {two!r}"


@examples(150)
@given(seeds, st.integers(0, 3))
@pytest.mark.slow
def test_values_compare_alike_in_both_directions(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    found = tree(rng, depth)
    one, two = latex(found, rng), latex(rng.choice([found, mutated(found, rng), tree(rng, depth)]), rng)
    assert accepted(one, two) == accepted(two, one), f"{one!r} and {two!r}"


@examples(60)
@given(st.fractions(-1000, 1000, max_denominator=400), st.fractions(-1000, 1000, max_denominator=400), seeds)
@example(Fraction(1, 3), Fraction(333333, 1000000), 0)
def test_fractions_are_equal_exactly_when_they_are(one: Fraction, other: Fraction, seed: int) -> None:
    rng = random.Random(seed)
    assert accepted(spelled(one, rng), spelled(one, rng))
    first, second = rf"\frac{{{one.numerator}}}{{{one.denominator}}}", rf"\frac{{{other.numerator}}}{{{other.denominator}}}"
    assert accepted(first, second) is (one == other)


@examples(40)
@given(seeds, st.integers(2, 5))
def test_order_matters_in_tuples_and_not_in_sets_and_lists(seed: int, count: int) -> None:
    rng = random.Random(seed)
    values = sorted({rational(rng) for _ in range(count)} | {Fraction(1001, 7)})
    turned = rng.sample(values, len(values))
    gold, same, other = (", ".join(spelled(value, rng) for value in row) for row in (values, values, turned))
    assert accepted(rf"\{{{gold}\}}", rf"\{{{other}\}}")
    assert accepted(gold, other)
    assert accepted(f"({gold})", f"({same})")
    assert accepted(f"({gold})", f"({other})") is (turned == values)
    short = ", ".join(spelled(value, rng) for value in values[1:])
    for opening, closing in (("(", ")"), (r"\{", r"\}"), ("", "")):
        assert not accepted(f"{opening}{gold}{closing}", f"{opening}{short}{closing}")
        assert not accepted(f"{opening}{short}{closing}", f"{opening}{gold}{closing}")


@examples(24)
@given(seeds)
def test_sets_and_equations_compare_alike_in_both_directions(seed: int) -> None:
    rng = random.Random(seed)
    values = [rational(rng) for _ in range(rng.randint(1, 4))]
    others = rng.choice([rng.sample(values, len(values)), values[1:] or [Fraction(1, 97)], [*values, Fraction(5, 97)]])
    one, other = (rf"\{{{', '.join(spelled(value, rng) for value in row)}\}}" for row in (values, others))
    assert accepted(one, other) == accepted(other, one), f"{one!r} and {other!r}"
    a, b, c, factor = (rng.choice([-3, -2, 2, 5]) for _ in range(4))
    line, again = f"{a}x + {b}y = {c}", f"{a * factor}x + {b * factor}y - ({c * factor}) = 0"
    assert accepted(line, again)
    assert accepted(again, line)
    assert not accepted(line, f"{a * factor}x + {b * factor}y - ({c * factor + 1}) = 0")


@examples(32)
@given(seeds, st.integers(0, 3))
def test_the_layout_says_nothing(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    text = latex(tree(rng, depth), rng)
    for name in rng.sample(sorted(LAYOUT), 6):
        new = LAYOUT[name](text, "", random.Random(seed))
        assert new is None or accepted(text, new), f"{name}: {text!r} against {new!r}"


@examples(24)
@given(seeds)
def test_rewrites_are_accepted_and_mutations_are_not(seed: int) -> None:
    rng = random.Random(seed)
    row = ", ".join(spelled(rational(rng), rng) for _ in range(2))
    text = rng.choice([spelled(rational(rng), rng), f"({row})", f"[{row})", rf"\{{{row}, 1001\}}", f"x = {rng.randint(2, 99)}"])
    gold = Gold("property", seed, "What is it?", text)
    for name, new in rewrites(gold, 4):
        assert accepted(text, new), f"{name}: {text!r} against {new!r}"
    for name, new in mutations(gold, 4):
        assert not accepted(text, new), f"{name}: {text!r} against {new!r}"


@examples(120)
@given(answers, st.sampled_from(["5", r"\frac{1}{2}", "x^2+1", r"\{1,2\}", "(1,2)", r"x \le 3", r"\text{odd}", r"\sqrt{2}"]))
def test_whatever_is_answered_gets_a_verdict(answer: str, gold: str) -> None:
    assert grade(gold, answer).status is not Status.ERROR


@examples(40)
@given(answers)
def test_whatever_is_the_gold_never_raises(gold: str) -> None:
    if gold.strip(" $"):
        try:
            prompt = ENV.prompt("What is it?", answer=gold)
        except UsageError:
            return
        score = ENV.score(prompt, r"\boxed{5}")
        assert score.error is None or score.error.kind == "gold_invalid"


@pytest.mark.parametrize(
    ("gold", "answer", "question"),
    [
        ("-5", "-3 = -5", r"Find $CD$ with $\frac{C}{x-3}+\frac{D}{x+8}=1$ for all $x$ except $-8$ and $3$."),
        ("0", "-1 = 0", "Solve $x-1 = 0$."),
        ("-1", "-2 = -1", "What is $x-2$?"),
        (r"25\%", r"25\text{ cm}", "What share is it?"),
        (r"2 \cos (\pi t+\pi / 3)", r"2 \cos (\pi t-\pi / 3)", "Write it as one wave."),
        (r"\lfloor\sqrt{n-1}\rfloor", r"\lfloor\sqrt{n-19}\rfloor", "How many are there?"),
        (r"\lfloor n/100\rfloor", r"\lfloor (n+1)/100\rfloor", "How many are there?"),
        (r"\lceil n/2\rceil", r"\lfloor n/2\rfloor + 1", "How many are there?"),
        (r"1\frac{4}{5}", r"1\frac{9}{5}", "How much is it?"),
        (r"\text{1:03 PM}", r"\text{1:03 PF}", "When?"),
    ],
)
def test_false_accepts_that_the_mutations_found(gold: str, answer: str, question: str) -> None:
    prompts = [ENV.prompt(question + " " * spaces, answer=gold) for spaces in range(8)]  # not by luck of the seed either
    assert {ENV.score(prompt, rf"\boxed{{{answer}}}").status for prompt in prompts} == {Status.INCORRECT}


@pytest.mark.parametrize(
    ("gold", "answer", "question"),
    [
        (r"\pi + 1", r"1 + \pi{}", "What is it?"),
        ("9", r"\ 9\ ", "What is it?"),
        ("9", r"\ 9\ .", "What is it?"),
        ("2112_6", "2112_{(6)}", "What is it in base 6?"),
        ("-3./2", r"-3.\,/\,2", "What is it?"),
        ("1.5e33", "1.5e33.", "What is it?"),
        (r"e^{2 i t}", "e^{2it}", "What is it?"),
        (r"(-\infty, 1)\cup(3,\infty)", "(-oo, 1) U (3, oo)", "Where?"),
        (r"144 \mbox{ m}^3", "144 m^3", "How much water is it?"),
        (r"576\pi\;m^{2}", r"\left(576\pi\;m^{2}\right)", "How large is it?"),
        (r"-5^\circ", "-5", "How warm is it?"),
        (r"\lceil n/2\rceil", r"\lfloor (n+1)/2\rfloor", "How many are there?"),
        (r"5+6\sqrt{2}", r"-(-5 - 6\sqrt{2})", r"What is the radical conjugate of $5 - 6\sqrt{2}$?"),
        ("$f(n)=n$", "n = f(n)", "Find all functions f with $f(m+n) = f(m)+f(n)$."),
    ],
)
def test_false_refusals_that_the_rewrites_found(gold: str, answer: str, question: str) -> None:
    score = ENV.score(ENV.prompt(question, answer=gold), rf"\boxed{{{answer}}}")
    assert score.status is Status.CORRECT, score.reason


@pytest.mark.parametrize("extra", [1, 10])
def test_generated_expressions_are_the_same_in_every_run(extra: int) -> None:
    texts = [latex(expression(rng, 4), rng) for seed in range(extra) for rng in (random.Random(seed),)]
    assert texts == [latex(expression(rng, 4), rng) for seed in range(extra) for rng in (random.Random(seed),)]
