r"""Grammar of names and functions. It also decides when a name before parentheses is a function.

- `f(x)`: the names `f`, `g`, `F`, `G` always are functions. Any other name is a function if its argument has a comma, a
  relation or sets in it. A name in `_OFTEN_FUNCTIONS` is also a function if its argument is a single name or number: `P(A)` and
  `p(3)`, but not `p(1-p)`. All else, such as `n(n+1)`, is a product.
- `\sin 2x \cos y`: a function without parentheses takes the factors up to a sign, a slash, a parenthesis or the next function.
- `\operatorname{cis} x` is written out: `\cos x + i\sin x`.
"""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.build import bare, mul
from verigym.envs.math.numerals import literal
from verigym.envs.math.reading.big_operators import BigOperators
from verigym.envs.math.reading.tokens.cursor import in_base
from verigym.envs.math.tree import (
    Add,
    Call,
    Constant,
    Group,
    Listing,
    Neg,
    Node,
    Number,
    Phrase,
    Pow,
    Relation,
    Root,
    SetOp,
    Symbol,
    Text,
    walk,
)

_ALWAYS_FUNCTIONS = frozenset("fgFG")
_OFTEN_FUNCTIONS = frozenset("hHPpQqSTCIVWNuvy") | {
    "phi",
    "psi",
    "theta",
    "delta",
    "mu",
    "sigma",
    "zeta",
    "Gamma",
    "varphi",
    "x",
}
_ARGUMENT_STARTS = frozenset("num sym const frac sqrt cbrt { accent binom shape".split())
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
_MANY = frozenset("gcd lcm max min".split())
_NAMES = _MANY | {"det"}
_OF_EVENTS = frozenset("PpENn")


class Calls(BigOperators):
    """The part of the parser that reads names, with indices, primes and arguments."""

    def name(self) -> Node:
        """Read a variable or the call of a function, and return its tree."""
        return self.named(self.take()[1])

    def named(self, name: str) -> Node:
        """Read the subscripts, primes and arguments after `name`, and return the tree of the variable or call."""
        if self.kind not in _ATTACHED:
            if self.kind == "num" and len(name) == 1 and not self.tokens[self.at][2] and self.ahead() in _AFTER_INDEX:
                digits = self.tokens[self.at][1]
                if digits.isdigit() and len(digits) <= 2 and "a" <= name <= "z":  # x1 = 3
                    self.take()
                    return Symbol(f"{name}_{digits}" if len(digits) == 1 else f"{name}_{{{digits}}}")
            return Symbol(name)
        base = name
        while self.kind == "_" or self.kind == "'":
            if self.kind == "'":
                name += self.take()[1]
                if len(name) > 200:
                    raise self.error("a name too long")
                continue
            self.take()
            lower = self.subscript()
            if lower in ("16", "hex") and len(base) > 1 and set(base) <= set("ABCDEF"):
                return in_base(self, base, lower)
            name += f"_{lower}" if len(lower) == 1 else f"_{{{lower}}}"
        if self.kind == "^" and base == "C":
            chosen = self._chosen(name)
            if chosen is not None:
                return chosen
        if self.kind == "^":
            name = self._inverse(base, name)
        if self.kind == "(" and not self.states_condition():
            return self.applied(name, base)
        return Symbol(name)

    def _inverse(self, base: str, name: str) -> str:
        r"""Read the `^{-1}` of `f^{-1}(x)` and the primes of `f^{\prime}(x)`."""
        kinds = [token[0] for token in self.tokens[self.at + 1 : self.at + 6]]
        texts = [token[1] for token in self.tokens[self.at + 1 : self.at + 6]]
        if (
            kinds == ["{", "-", "num", "}", "("]
            and texts[2] == "1"
            and base in _ALWAYS_FUNCTIONS | _OFTEN_FUNCTIONS - {"x", "y"}
        ):
            self.jump(self.at + 5)
            return f"{name}^-1"
        if kinds[:1] == ["'"] or kinds[:3] == ["{", "'", "}"]:
            primes = texts[0] if kinds[0] == "'" else texts[1]
            self.jump(self.at + (2 if kinds[0] == "'" else 4))
            return name + primes
        return name

    def _chosen(self, name: str) -> Node | None:
        """Read `C_{10}^3` or `C^3_{10}`; None where it is the power of a constant, and nothing is read."""
        some, place = self._small(self.at + 1)
        if not some:  # what follows may be the end
            return None
        total = name[1:].strip("_{}")
        if not total and self.tokens[place][0] == "_":
            total, place = self._small(place + 1)
        if not (some.isdigit() and total.isdigit() and len(total) < 6 and 3 <= int(total) > int(some[:6])):
            return None
        self.jump(place)
        return Call("binom", (literal(total), literal(some)))

    def _small(self, place: int) -> tuple[str, int]:
        """Return the digits that stand raised or lowered there, in braces or not, and where they end."""
        tokens = self.tokens
        braced = tokens[place][0] == "{"
        kind, digits, *_ = tokens[place + braced]
        closed = kind == "num" and (not braced or tokens[place + 2][0] == "}")
        return (digits if closed else ""), place + (3 if braced else 1)

    def applied(self, name: str, base: str | None = None) -> Node:
        """Read the parentheses after `name` and return a call, or the name alone if they are the next factor of a product.

        Args:
            name: the complete name.
            base: the name without index and primes; None if `name` has neither.
        """
        base = base or name
        start = self.at
        inside = self.bracket()
        items = inside.items if type(inside) is Group and inside.opening == "(" and inside.closing == ")" else None
        if items is not None and name == "C" and _may_choose(items):
            return Call("binom", items)
        if items is not None:
            return Call(name, items)
        primed = name != base and (name.endswith("'") or name.endswith("^-1"))
        single = type(inside) in (Symbol, Number, Constant) or (type(inside) is Neg and type(inside.of) in (Number, Symbol))
        if (
            base in _ALWAYS_FUNCTIONS
            or primed
            or type(inside) in (Relation, SetOp, Listing)
            or (type(inside) is Group and inside.opening == "{")
            or (type(inside) is Call and inside.name == "divides")
            or (type(inside) in (Text, Phrase) and name in _OF_EVENTS and not self.tokens[start][2])  # P(\text{even})
            or (name == "n" and type(inside) is Symbol and len(inside.name) == 1 and inside.name.isupper())  # n(A)
            or (single and base in _OFTEN_FUNCTIONS and (base not in "xyuv" or inside in _TIMES))
        ):
            return Call(name, (inside,))
        self._put_back(start, inside)
        return Symbol(name)

    def _put_back(self, start: int, node: Node) -> None:
        """Put parentheses back that were read ahead, as one token: they are the next factor."""
        place = self.at - 1
        self.tokens[place] = ("(", "(", self.tokens[start][2], self.tokens[start][3])
        self.nodes[place] = node
        self.jump(place)

    def function(self) -> Node:
        """Read a named function with its exponent, base and argument, and return its tree."""
        name = self.take()[1]
        self.enter()
        exponent: Node | None = None
        base: Node | None = None
        lower = ""
        while self.kind in ("^", "_"):
            if self.kind == "^":
                if exponent is not None:
                    raise self.error("two exponents")
                self.take()
                exponent = self.script()
            elif name == "log":
                self.take()
                base = self._base()
            else:
                self.take()
                lower += self.subscript()
        if name == "log" and self.kind == "num" and self.ahead() == "(" and self.tokens[self.at][1] in ("2", "10"):
            base = base or (None if self.tokens[self.at][2] else literal(self.take()[1]))  # log2(8)
        if name in _NAMES and self.kind == "rel" and exponent is None and not lower:
            self.depth -= 1
            return Text(name)  # \min = 5
        minus_one = type(exponent) is Neg and type(exponent.of) is Number and exponent.of.value == 1
        if minus_one and name in _INVERSES:
            name, exponent = _INVERSES[name], None
        node = self._call(f"{name}_{{{lower}}}" if lower else name, base)
        self.depth -= 1
        return node if exponent is None else Pow(node, exponent)

    def _base(self) -> Node:
        r"""Read the base of a logarithm; `\log_28` is the one of 8, `log_10 5` the one of 5."""
        if self.kind == "num" and self.ahead() in _ARGUMENT_STARTS | {"("}:
            return literal(self.take()[1])
        return self.argument()

    def _call(self, name: str, base: Node | None) -> Node:
        arguments = self._arguments(name)
        if name == "log":
            if len(arguments) == 2 and base is None:
                return Call("log", arguments)
            return Call("log", (self._single(arguments), base or Number(Fraction(10))))
        if name in ("sqrt", "cbrt"):
            return Root(self._single(arguments), Number(Fraction(2 if name == "sqrt" else 3)))
        if name in _MANY or name in ("binom", "perm"):
            if name == "binom" and len(arguments) != 2:
                raise self.error("two arguments expected")
            return Call(name, arguments)
        if name == "cis":
            angle = self._single(arguments)
            return Add((Call("cos", (angle,)), mul([Constant("i"), Call("sin", (angle,))])))
        return Call(name, (self._single(arguments),))

    def _single(self, arguments: tuple[Node, ...]) -> Node:
        if len(arguments) != 1:
            raise self.error("one argument expected")
        return arguments[0]

    def _arguments(self, name: str) -> tuple[Node, ...]:
        kind = self.kind
        if kind in ("(", "[", "\\{", "{"):
            node = self.group() if kind == "{" else self.atom()
            if node is None:
                raise self.error("an argument expected")
            if type(node) is Group and node.opening in ("(", "{", "tex{") and name in _MANY | {"binom", "log"}:
                return node.items
            return (bare(node),)
        if kind in ("lbar", "|", "⌊", "func", "‖", "begin"):
            return (self.factor(),)
        if kind == "-":
            self.take()
            return (Neg(mul(self._factors())),)
        return (mul(self._factors()),)

    def _factors(self) -> list[Node]:
        """Read the argument of a function without parentheses."""
        if self.kind not in _ARGUMENT_STARTS:
            raise self.error("an argument expected")
        factors = [self.factor()]
        while self.kind in _ARGUMENT_STARTS and not (self.kind == "num" and self.tokens[self.at - 1][0] == "num"):
            if self.integrals and self.tokens[self.at][1] == "d" and self.ahead() == "sym":
                break
            factors.append(self.factor())
        if self.kind == "(" and len(factors) == 1 and type(factors[0]) is Number:  # \sin 2(x+1)
            factors.append(self.factor())
        return factors

    def accent(self) -> Node:
        r"""Read an accent such as `\vec{v}`, `\overline{AB}` or `\hat{x}`, and return the tree.

        `\mathbf{v}` and `\vec{v}` become plain names.
        """
        what = self.take()[1]
        if what == "vec" and self.kind == "{" and self.ahead() == "const" and self.ahead(2) == "}":
            self.jump(self.at + 1)
            name = self.take()[1]
            self.take()
            return self.named(name)
        node = self.argument()
        if what == "vec" or (what in ("bar", "arc") and type(node) is Symbol and len(node.name) > 1 and node.name[0].isupper()):
            return self.named(node.name) if type(node) is Symbol and self.kind in _ATTACHED else node
        if type(node) is Symbol:
            if what == "bar" and self.kind != "_":
                return Call("conj", (node,))
            return self.named(f"{what} {node.name}")
        if type(node) is Constant:
            return self.named(f"{what} {node.name}")
        # A bar over digits alone is no conjugate: a number in digits, an average, a repeating part without its point.
        unreal = any(type(part) is Symbol or part == Constant("i") for part in walk(node))
        return Call("conj" if what == "bar" and unreal else what, (node,))

    def shape(self) -> Node:
        r"""Read `\angle APC` or `\triangle ABC` and return it as a name."""
        what = self.take()[1]
        name = ""
        while self.kind in ("sym", "num") and (self.tokens[self.at][1][:1].isupper() or not name):
            if self.kind == "num":
                name += self.take()[1]
                break
            node = self.atom()
            if type(node) is not Symbol:
                raise self.error("the name of a figure expected")
            name += node.name
        if self.kind == "{" and not name:
            inner = self.group()
            name = inner.name if type(inner) is Symbol else ""
        return Symbol(f"{what} {name}".strip())


def _may_choose(items: tuple[Node, ...]) -> bool:
    """Tell the numbers of `C(10, 3)`."""
    sizes = [item.value for item in items if type(item) is Number and item.value.denominator == 1]
    return len(sizes) == len(items) == 2 and sizes[0] >= sizes[1]


_ATTACHED = frozenset(("_", "'", "(", "^"))
_AFTER_INDEX = frozenset(("rel", "<", ">", ",", "end", ")", "+", "-", "}", "and", "or", ";", "\\}", "]"))
_TIMES: tuple[Node, ...] = (Symbol("t"), Number(Fraction(0)))
