import json
from fractions import Fraction
from typing import Any

import pytest
from cases import cases

from verigym.envs.math import tree
from verigym.envs.math.reading.parse import parse
from verigym.envs.math.symbolic import wire
from verigym.envs.math.symbolic.construct import Builder, Namer
from verigym.envs.math.symbolic.wire import MAX_DEPTH, MAX_HEX, MAX_NODES, MAX_TEXT, WireError, dumps, loads
from verigym.envs.math.tree import Add, Clock, Neg, Node, Number, PlusMinus, Symbol, Text

ONE = Number(Fraction(1))
NODES: list[Node] = [
    ONE,
    Number(Fraction(-3, 4), 2, "mixed"),
    Number(Fraction(7**2000)),
    Symbol("x_1"),
    tree.Constant("pi"),
    Add((ONE, Symbol("x"))),
    tree.Mul((ONE, Symbol("x"))),
    Neg(ONE),
    tree.Div(ONE, Symbol("x")),
    tree.Pow(ONE, ONE),
    tree.Root(ONE),
    tree.Root(ONE, Symbol("n")),
    tree.Call("sin", (ONE,)),
    tree.Call("f", ()),
    tree.Percent(ONE),
    tree.Quantity(ONE, "degree"),
    tree.InBase("1012", 3),
    tree.Matrix(((ONE, ONE), (ONE, ONE))),
]
NO_EXPRESSIONS: list[Node] = [
    PlusMinus(ONE),
    tree.Quantity(ONE, "mile per hour"),
    Clock(12, 30),
    Clock(3, 5, 7, "pm"),
    tree.Group("tex{", "}", (ONE, ONE)),
    tree.Listing((ONE, ONE), "or"),
    tree.SetBuilder(Symbol("x"), ONE),
    tree.SetOp("union", (ONE, ONE)),
    tree.NamedSet("R"),
    tree.Relation((ONE, Symbol("x"), ONE), ("<", "<=")),
    Text("it's \u96ea"),
    tree.Ellipsis(),
    tree.Phrase((ONE, Text("or so"))),
]


def test_every_kind_of_node_is_covered() -> None:
    assert {type(node) for node in NODES + NO_EXPRESSIONS} == set(tree.Node.__args__)


@pytest.mark.parametrize("node", NO_EXPRESSIONS, ids=lambda node: type(node).__name__)
def test_what_is_no_expression_does_not_go(node: Node) -> None:
    with pytest.raises(WireError, match="expression"):
        dumps(Neg(node))


@pytest.mark.parametrize("node", [node for node in NODES if node != tree.Call("f", ())], ids=lambda node: type(node).__name__)
def test_every_kind_that_goes_is_built(node: Node) -> None:
    assert Builder(Namer(node, ONE, "real")).build(node) is not None


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_round_trip(node: Node) -> None:
    assert loads(dumps(node, Neg(node))) == (node, Neg(node))


@pytest.mark.parametrize(
    "text", [r"\frac{x^2+1}{\sqrt[3]{y}}", r"\sin 30^\circ", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"1012_3 + 50\%"]
)
def test_parsed_trees_make_the_round_trip(text: str) -> None:
    assert loads(dumps(parse(text))) == (parse(text),)


NUMBER = ["Number", "1", "1", 0, "plain"]


@cases(
    "value",
    [
        None,
        1,
        "x",
        {},
        {"a": 1},
        [1],
        [[]],
        [["Symbol"]],
        [["Symbol", 1]],
        [["Symbol", "x", "y"]],
        [["symbol", "x"]],
        [["Node"]],
        [["Number", "1", "0", 0, "plain"]],
        [["Number", "1", "-1", 0, "plain"]],
        [["Number", "", "1", 0, "plain"]],
        [["Number", "0x1", "1", 0, "plain"]],
        [["Number", "1_0", "1", 0, "plain"]],
        [["Number", "1", "1", -1, "plain"]],
        [["Number", "1", "1", True, "plain"]],
        [["Number", "1", "1", 0, "other"]],
        [["Number", 1, 1, 0, "plain"]],
        [["Number", "1", "1", 0]],
        [["Number", "f" * (MAX_HEX + 1), "1", 0, "plain"]],
        [["Number", "\u0661", "1", 0, "plain"]],
        [["Number", "1\n", "1", 0, "plain"]],
        [["Constant", "tau"]],
        [["Constant", None]],
        [["Add", NUMBER]],
        [["Add", [1]]],
        [["Neg", None]],
        [["PlusMinus", NUMBER, 1]],
        [["Relation", [NUMBER, NUMBER], ["="]]],
        [["Quantity", NUMBER, "cm"]],
        [["Matrix", [NUMBER]]],
        [["Symbol", "x" * (MAX_TEXT + 1)]],
        [["__class__", "x"]],
        [["InBase", "12", 10**9]],
    ],
    ids=repr,
)
def test_what_is_no_tree_is_refused(value: Any) -> None:
    with pytest.raises(WireError):
        loads(json.dumps(value).encode())


@pytest.mark.parametrize("data", [b"", b"[", b"\xff", b"[" * 100_000, b'["Neg",' * 100_000, b"NaN", b"Infinity"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        loads(data)


def test_both_ends_have_limits() -> None:
    deep: Node = ONE
    for _ in range(MAX_DEPTH + 1):
        deep = Neg(deep)
    wide = Add((ONE,) * MAX_NODES)
    for node in (deep, wide, Number(Fraction(16**MAX_HEX)), Symbol("x" * (MAX_TEXT + 1))):
        with pytest.raises(WireError):
            dumps(node)
    raw: Any = NUMBER
    for _ in range(MAX_DEPTH + 1):
        raw = ["Neg", raw]
    for value in (raw, ["Add", [NUMBER] * MAX_NODES]):
        with pytest.raises(WireError):
            loads(json.dumps([value]).encode())
    assert wire.loads(dumps()) == ()
