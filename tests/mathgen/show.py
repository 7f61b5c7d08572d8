"""Trees as S-expressions, for tests and messages: `(+ (^ x 2) (neg 1))`."""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.tree import (
    Add,
    Call,
    Clock,
    Constant,
    Div,
    Ellipsis,
    Group,
    InBase,
    Listing,
    Matrix,
    Mul,
    NamedSet,
    Neg,
    Node,
    Number,
    Percent,
    Phrase,
    PlusMinus,
    Pow,
    Quantity,
    Relation,
    Root,
    SetBuilder,
    SetOp,
    Symbol,
    Text,
    children,
)  # fmt: skip

_MAX_DIGITS = 60
_HEADS: dict[type[Node], str] = {
    Add: "+", Mul: "*", Neg: "neg", Div: "/", Pow: "^", Root: "root", Percent: "%", Phrase: "phrase", SetBuilder: "such-that",
}  # fmt: skip


def show(node: Node) -> str:
    """Return the tree as text: words in quotes, constants and sets with a dollar, variables bare."""
    leaf = _leaf(node)
    if leaf is not None:
        return leaf
    match node:
        case Group(opening, closing, items):
            return f"(group {opening}{closing}{_rest(items)})"
        case Listing(items, joiner):
            return f"({joiner}{_rest(items)})"
        case Relation(sides, comparators):
            chain = " ".join(f"{show(side)} {sign}" for side, sign in zip(sides, comparators, strict=False))
            return f"(rel {chain} {show(sides[-1])})"
        case SetOp(op, parts):
            return f"({op}{_rest(parts)})"
        case Call(name, args):
            return f"({name.replace(' ', '~')}{_rest(args)})"
        case Quantity(value, unit):
            return f"(unit {show(value)} {unit!r})"
        case PlusMinus(of, sign):
            return f"({'+-' if sign == 1 else '-+'} {show(of)})"
        case Matrix(rows):
            return "(matrix " + " ".join("[" + " ".join(map(show, row)) + "]" for row in rows) + ")"
    return f"({_HEADS[type(node)]}{_rest(children(node))})"


def _leaf(node: Node) -> str | None:
    match node:
        case Number(value, decimals, style):
            shown = f"{_value(value)}.{decimals}" if decimals and style == "plain" else _value(value)
            return shown if style == "plain" else f"{style}:{shown}"
        case Symbol(name):
            return name.replace(" ", "~")
        case Constant(name) | NamedSet(name):
            return f"${name}"
        case Text(words):
            return f'"{words}"'
        case Ellipsis():
            return "..."
        case InBase(digits, base):
            return f"{digits}_{base}"
        case Clock(hour, minute, second, half):
            return f"{hour}:{minute:02}" + (f":{second:02}" if second is not None else "") + (half or "")
    return None


def _rest(parts: tuple[Node, ...]) -> str:
    return "".join(f" {show(part)}" for part in parts)


def _value(value: Fraction) -> str:
    if value.numerator.bit_length() > 4 * _MAX_DIGITS or value.denominator.bit_length() > 4 * _MAX_DIGITS:
        return f"<{value.numerator.bit_length()} bits/{value.denominator.bit_length()} bits>"
    return str(value)
