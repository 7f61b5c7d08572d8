"""Grammar of operators that bind a variable: sums, products, integrals and limits."""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.numerals import literal
from verigym.envs.math.reading.tokens.cursor import Cursor
from verigym.envs.math.tree import Call, Div, Mul, Node, Number, Relation, Symbol


class BigOperators(Cursor):
    """The part of the parser that reads sums, products, integrals and limits."""

    def big(self) -> Node:
        """Read a sum, product, integral or limit with its body, and return its tree."""
        name = self.take()[1]
        self.enter()
        saved = self.bound, self.integrals, self.approaching
        low: Node | None = None
        high: Node | None = None
        self.approaching = name == "lim"
        while self.kind in ("_", "^"):
            if self.take()[0] == "_":
                low = self._below()
            else:
                high = self.script()
        self.approaching = saved[2]
        if name in ("int", "iint", "oint"):
            node = self._integral(name, low, high)
        elif name == "lim":
            node = self._limit(low)
        else:
            node = self._series(name, low, high)
        self.bound, self.integrals, _ = saved
        self.depth -= 1
        return node

    def _below(self) -> Node:
        r"""Read `k=1` or `x \to 0`; an index named `i` is a variable in it and in what follows."""
        if self.kind == "{" and self.ahead() == "const" and self.ahead(2) in ("rel",):
            self.bound = self.bound | {self.tokens[self.at + 1][1]}
        return literal(self.take()[1]) if self.kind == "num" else self.argument()

    def _series(self, name: str, low: Node | None, high: Node | None) -> Node:
        body = self.product()
        if type(low) is Relation and low.comparators == ("=",) and type(low.sides[0]) is Symbol and high is not None:
            return Call(name, (body, low.sides[0], low.sides[1], high))
        parts = tuple(part for part in (low, high) if part is not None)
        return Call(f"{name} over", (body, *parts))

    def _limit(self, low: Node | None) -> Node:
        if type(low) is not Relation or low.comparators != ("to",) or type(low.sides[0]) is not Symbol:
            raise self.error("a limit without a variable")
        return Call("lim", (self.product(), low.sides[0], low.sides[1]))

    def _integral(self, name: str, low: Node | None, high: Node | None) -> Node:
        self.integrals += 1
        body: Node = Number(Fraction(1)) if self._at_differential() else self.sum()
        if not self._at_differential():
            match body:
                case Div(Mul((Symbol("d"), Symbol() as variable)), bottom) if low is None and high is None and name == "int":
                    return Call("integral", (Div(Number(Fraction(1)), bottom), variable))  # \int \frac{dx}{x}
                case Div(Mul((Symbol("d"), Symbol() as variable)), bottom) if low is not None and high is not None:
                    return Call("int", (Div(Number(Fraction(1)), bottom), variable, low, high))
            raise self.error("an integral without its variable")
        self.take()
        variable = Symbol(self.take()[1])
        if low is not None and high is not None and name == "int":
            return Call("int", (body, variable, low, high))
        return Call(
            "integral" if name == "int" else name, (body, variable, *(part for part in (low, high) if part is not None))
        )

    def _at_differential(self) -> bool:
        return self.tokens[self.at][1] == "d" and self.ahead() == "sym"
