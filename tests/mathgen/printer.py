r"""Random expressions with an own printer to LaTeX in many spellings, and an own evaluator: for the property suite."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import mpmath  # type: ignore[import-untyped]

Op = Literal["number", "name", "add", "neg", "mul", "div", "pow", "sqrt", "call", "pi"]
_OPS: tuple[Op, ...] = ("add", "add", "add", "mul", "mul", "mul", "div", "div", "neg", "pow", "sqrt", "call")
FUNCTIONS = ("sin", "cos", "ln")
NAMES = ("x", "y", "a")


@dataclass(frozen=True)
class Expr:
    """A node: a number, a name or an operation on `args`."""

    op: Op
    args: tuple[Expr, ...] = ()
    number: int = 0
    name: str = ""


def expression(rng: random.Random, depth: int, names: tuple[str, ...] = NAMES) -> Expr:
    """Return a random expression; without names it is a constant."""
    if depth == 0 or rng.random() < 0.15:
        if names and rng.random() < 0.5:
            return Expr("name", name=rng.choice(names))
        return Expr("pi") if rng.random() < 0.1 else Expr("number", number=rng.choice([1, 2, 3, 5, 7, 12, 30, 144]))
    op = rng.choice(_OPS)
    one = expression(rng, depth - 1, names)
    if op == "pow":
        return Expr("pow", (one, Expr("number", number=rng.choice([2, 2, 3, 4]))))
    if op == "sqrt":  # of a number or a square plus one, so that every point has a real value
        return Expr(
            "sqrt", (Expr("add", (Expr("pow", (one, Expr("number", number=2))), Expr("number", number=rng.randint(1, 9)))),)
        )
    if op == "call":
        name = rng.choice(FUNCTIONS)
        inner = Expr("add", (Expr("pow", (one, Expr("number", number=2))), Expr("number", number=2))) if name == "ln" else one
        return Expr("call", (inner,), name=name)
    if op == "neg":
        return Expr("neg", (one,))
    return Expr(op, (one, expression(rng, depth - 1, names)))


def evaluate(expr: Expr, point: Mapping[str, Any], context: Any) -> Any:
    """Return the value with every name at its place in `point`.

    Raises:
        ZeroDivisionError: something is divided by zero.
    """
    values = [evaluate(arg, point, context) for arg in expr.args]
    match expr.op:
        case "number":
            return context.mpf(expr.number)
        case "name":
            return point[expr.name]
        case "pi":
            return +context.pi
        case "add":
            return values[0] + values[1]
        case "mul":
            return values[0] * values[1]
        case "neg":
            return -values[0]
        case "div":
            return values[0] / values[1]
        case "pow":
            if abs(values[0]) > 1e30:
                raise OverflowError("too large for a test")
            return values[0] ** int(values[1])
        case "sqrt":
            return context.sqrt(values[0])
    return getattr(context, expr.name)(values[0])


def points(names: tuple[str, ...] = NAMES, count: int = 3) -> list[dict[str, Any]]:
    """Return fixed points with values that are no special ones."""
    rng = random.Random("printer/points")
    context = context_of()
    return [{name: context.mpf(rng.randint(10**6, 3 * 10**6)) / 10**6 for name in names} for _ in range(count)]


def context_of() -> Any:
    """Return a context of 50 digits."""
    context = mpmath.MPContext()
    context.dps = 50
    return context


def same_values(one: Expr, other: Expr) -> bool | None:
    """Whether two expressions agree at the points; None where one of them has no value or the answer is not clear."""
    context = context_of()
    for point in points():
        try:
            left, right = evaluate(one, point, context), evaluate(other, point, context)
        except (ZeroDivisionError, OverflowError, ValueError, mpmath.libmp.ComplexResult):
            return None
        size = abs(left) + abs(right)
        if size < context.mpf(10) ** -40:  # sin(pi) is zero, but only by its digits
            if left != right:
                return None
            continue
        if context.mpf(10) ** -25 > abs(left - right) / size > context.mpf(10) ** -45:
            return None
        if abs(left - right) > size * context.mpf(10) ** -45:
            return False
    return True


def mutated(expr: Expr, rng: random.Random) -> Expr:
    """Return the expression with one node changed."""
    nodes = _count(expr)
    return _changed(expr, rng.randrange(nodes), rng)[0]


def _count(expr: Expr) -> int:
    return 1 + sum(map(_count, expr.args))


def _changed(expr: Expr, at: int, rng: random.Random) -> tuple[Expr, int]:
    if at == 0:
        return _other(expr, rng), -1
    at -= 1
    args = []
    for arg in expr.args:
        if at >= 0:
            arg, at = _changed(arg, at, rng)
        args.append(arg)
    return replace(expr, args=tuple(args)), at


def _other(expr: Expr, rng: random.Random) -> Expr:
    match expr.op:
        case "number":
            return replace(expr, number=expr.number + rng.choice([1, 2, 9]))
        case "name":
            return replace(expr, name=rng.choice([name for name in NAMES if name != expr.name]))
        case "call":
            return replace(expr, name=rng.choice([name for name in ("sin", "cos") if name != expr.name]))
        case "add" | "mul" | "div":
            return replace(expr, op=rng.choice([op for op in ("add", "mul", "div") if op != expr.op]))
    return rng.choice(
        [Expr("neg", (expr,)), Expr("add", (expr, Expr("number", number=1))), expr.args[0] if expr.args else expr]
    )


_ATOMS = 9
_PRIORITY = {"add": 1, "neg": 1, "mul": 3, "div": 9, "pow": 5, "sqrt": 9, "call": 4, "number": 9, "name": 9, "pi": 9}


def latex(expr: Expr, rng: random.Random) -> str:
    """Write an expression; which of the spellings of each part it gets, the random numbers decide."""
    args = expr.args
    match expr.op:
        case "number":
            return str(expr.number)
        case "name":
            return expr.name
        case "pi":
            return rng.choice([r"\pi ", r"{\pi}", "π"])
        case "add":
            return _sum(args, rng)
        case "neg":
            return f"-{_inside(args[0], 3, rng)}"
        case "mul":
            return _product(list(args), rng)
        case "div":
            if rng.random() < 0.15:
                return f"({_inside(args[0], 3, rng)}/{_inside(args[1], 9, rng)})"
            return rf"\{rng.choice(['frac', 'dfrac', 'tfrac'])}{{{latex(args[0], rng)}}}{{{latex(args[1], rng)}}}"
        case "pow":
            base = latex(args[0], rng) if args[0].op in ("name", "number") else _grouped(latex(args[0], rng), rng)
            return f"{base}^{rng.choice(['{%s}', '%s']) % latex(args[1], rng)}"
        case "sqrt":
            return rng.choice([r"\sqrt{%s}", r"(%s)^{1/2}", r"\left(%s\right)^{\frac{1}{2}}"]) % latex(args[0], rng)
    return rf"\{expr.name}{_grouped(latex(args[0], rng), rng)}"


def _sum(args: tuple[Expr, ...], rng: random.Random) -> str:
    one, two = rng.sample(args, 2)
    if two.op == "neg":
        return f"{latex(one, rng)}{rng.choice(['-', ' - '])}{_inside(two.args[0], 3, rng)}"
    right = latex(two, rng)
    if right.startswith("-"):  # +- is often meant as \\pm
        right = _grouped(right, rng)
    return f"{latex(one, rng)}{rng.choice(['+', ' + '])}{right}"


def _product(args: list[Expr], rng: random.Random) -> str:
    rng.shuffle(args)
    one, two = (_inside(arg, 3, rng) for arg in args)
    sign = rng.choice([r" \cdot ", r"\times ", "*", " "])
    if sign == " " and (args[1].op in ("number", "mul", "pow", "div") or args[0].op in ("call", "mul")):
        sign = r"\cdot "
    if sign == " " and args[0].op == "name" and two.startswith(("(", r"\left")):  # x (y+1) might be a function of y+1
        sign = r"\cdot "
    if args[0].op in ("call", "mul") and not one.endswith(")"):
        one = f"({one})"
    return f"{one}{sign}{two}"


def _inside(expr: Expr, priority: int, rng: random.Random) -> str:
    text = latex(expr, rng)
    return text if _PRIORITY[expr.op] >= priority else _grouped(text, rng)


def _grouped(text: str, rng: random.Random) -> str:
    return rng.choice(["(%s)", r"\left(%s\right)", r"\left( %s \right)"]) % text


def rational(rng: random.Random) -> Fraction:
    """Return a small fraction, sometimes an integer, sometimes a terminating decimal."""
    return Fraction(rng.randint(-200, 200), rng.choice([1, 1, 1, 2, 3, 4, 5, 7, 8, 10, 12, 100]))


def spelled(value: Fraction, rng: random.Random) -> str:
    """Write a fraction in one of its spellings."""
    sign, size = "-" if value < 0 else "", abs(value)
    if size.denominator == 1:
        return f"{sign}{rng.choice(['%d', '%d.0', '%d.00', '{%d}', ' %d '])}" % size.numerator
    forms = [r"\frac{%d}{%d}", r"\dfrac{%d}{%d}", "%d/%d", r"\left(\frac{%d}{%d}\right)", r"{%d}/{%d}"]
    text = rng.choice(forms) % (size.numerator, size.denominator)
    if (size * 1000).denominator == 1 and rng.random() < 0.4:
        text = f"{float(size):.3f}"
    return sign + text
