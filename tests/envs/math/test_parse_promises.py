"""What `tree.py` promises of every tree, on random formulas; and that what was written comes out."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import Add, Constant, Div, Mul, Neg, Node, Number, Pow, Root, SetOp, Symbol, walk

from .test_parse_hostile import PIECES


def check(node: Node) -> None:
    """Assert the promises."""
    for part in walk(node):
        match part:
            case Add(parts) | Mul(parts):
                assert len(parts) >= 2
                assert not any(type(child) is type(part) for child in parts)
            case SetOp(op, parts):
                assert len(parts) >= 2
                assert not (type(parts[0]) is SetOp and parts[0].op == op)
            case Number(value):
                assert value >= 0


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_promises_on_anything_that_parses(text: str) -> None:
    try:
        node = parse(text)
    except ParseError:
        return
    check(node)


LEAVES = st.one_of(
    st.integers(0, 10**12)
    .filter(lambda value: value != 10)
    .map(lambda value: Number(Fraction(value))),  # 2 * 10^3 is one number
    st.sampled_from("abchkmnpqrstuvwxyzABCDE").map(Symbol),  # no d: a quotient of two may be a derivative
    st.sampled_from([Constant("pi"), Constant("e"), Constant("i")]),
)


def grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Build formulas that keep the promises."""
    no_sum = inner.filter(lambda node: type(node) is not Add)
    no_product = inner.filter(lambda node: type(node) is not Mul)
    return st.one_of(
        st.lists(no_sum, min_size=2, max_size=4).map(lambda parts: Add(tuple(parts))),
        st.lists(no_product, min_size=2, max_size=3).map(lambda parts: Mul(tuple(parts))),
        inner.map(Neg),
        st.tuples(inner, inner).map(lambda pair: Div(*pair)),
        st.tuples(inner, inner).map(lambda pair: Pow(*pair)),
        inner.map(Root),
    )


FORMULAS = st.recursive(LEAVES, grow, max_leaves=12)


def write(node: Node) -> str:
    """Write a formula in TeX, every part in parentheses."""
    match node:
        case Number(value):
            return str(value)
        case Symbol(name):
            return name
        case Constant(name):
            return {"pi": r"\pi "}.get(name, name)
        case Add(parts):
            return "+".join(f"({write(part)})" for part in parts)
        case Mul(parts):
            return r" \cdot ".join(f"({write(part)})" for part in parts)
        case Neg(of):
            return f"-({write(of)})"
        case Div(one, two):
            return rf"\frac{{{write(one)}}}{{{write(two)}}}"
        case Pow(one, two):
            return f"({write(one)})^{{{write(two)}}}"
        case Root(of):
            return rf"\sqrt{{{write(of)}}}"
    raise AssertionError(node)


@settings(max_examples=120, deadline=None)
@given(FORMULAS)
def test_what_is_written_is_read(node: Node) -> None:
    check(node)
    assert parse(write(node)) == node
