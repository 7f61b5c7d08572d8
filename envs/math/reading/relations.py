"""Grammar of relations, ratios and set operations."""

from __future__ import annotations

from typing import cast

from verigym.envs.math.build import set_operation
from verigym.envs.math.reading.quantities.quantities import Quantities
from verigym.envs.math.tree import Call, Comparator, NamedSet, Node, Number, Relation, Symbol, Text

_SETS = frozenset("RZQNC")
_COMPARATORS = frozenset(("rel", "<", ">", "verb", "pmod"))


class Relations(Quantities):
    """The part of the parser that reads relations, and the sums with units on their sides."""

    def relation(self) -> Node:
        """Read sides with comparators between them and return the relation, or the only side."""
        start = self.at
        first = self.side()
        aside = self._opens_aside()
        if self.kind not in _COMPARATORS:
            return first
        sides: list[Node] = [self._defined(start) or first]
        comparators: list[Comparator] = []
        while self.kind in _COMPARATORS:
            if self.kind == ">" and self.angles:
                break
            kind, what, _, _ = self.take()
            if kind == "pmod":
                modulus = self._modulus(what == "(")
                sides[-1] = Call("mod", (sides[-1], modulus))
                if comparators and comparators[-1] == "=":
                    comparators = ["equiv" if sign == "=" else sign for sign in comparators]
                continue
            if kind == "verb":
                sides[-1] = Call(what, (sides[-1], self.side()))
                continue
            if what in "<>" and self.kind == "rel" and self.tokens[self.at][1] == "=" and not self.tokens[self.at][2]:
                self.take()  # \lt=
                what += "="
            comparators.append(cast("Comparator", what))
            right = self.side()
            if what in ("in", "notin") and type(right) is Symbol and right.name in _SETS:
                right = NamedSet(right.name)  # type: ignore[arg-type]
            sides.append(right)
            aside = aside or self._opens_aside()
        if aside:
            self.expect(")")
        return congruence(tuple(sides), tuple(comparators)) if comparators else sides[0]

    def _opens_aside(self) -> bool:
        r"""Step into the parenthesis of `\frac12 (= 0.5)`, which goes on with the chain."""
        opens = self.says_again()
        if opens:
            self.take()
        return opens

    def _modulus(self, opened: bool) -> Node:
        if opened:  # (mod 7)
            node = self.sum()
            self.expect(")")
            return node
        return self.argument() if self.kind == "{" else self.factor()

    def _defined(self, start: int) -> Node | None:
        """Read `C(h) = ...` as a function of h: what is defined is no product."""
        tokens = self.tokens
        if self.at - start != 4 or tokens[start + 1][0] != "(" or tokens[start][0] != "sym" or self.tokens[self.at][1] != "=":
            return None
        inner = tokens[start + 2]
        return Call(tokens[start][1], (Symbol(inner[1]),)) if inner[0] == "sym" else None

    def side(self) -> Node:
        """Read a side of a relation (a union or a ratio of sums) and return its tree."""
        node = self.measured()
        while True:
            kind = self.kind
            if kind == "setop":
                what = self.take()[1]
                right = self.measured()
                op = "union" if what == "union" else "intersection" if what == "intersection" else "difference"
                node = set_operation(op, node, right)  # type: ignore[arg-type]
            elif kind == ":" and not self.builder and type(node) is not Text and self.ahead() not in _NOT_RATIO:
                sides = [node]
                while self.kind == ":":
                    self.take()
                    sides.append(self.measured())
                node = Relation(tuple(sides), cast("tuple[Comparator, ...]", (":",) * (len(sides) - 1)))
            elif kind == "word" and self.ahead() == "num" and type(node) is Number and self.tokens[self.at][1] == "to":
                self.take()
                node = Relation((node, self.measured()), (":",))
            elif kind == "|" and not self.bars and not self.builder and not self.plain_set:
                self.take()
                node = Call("divides", (node, self.measured()))
            else:
                return node


def congruence(sides: tuple[Node, ...], comparators: tuple[Comparator, ...]) -> Relation:
    r"""Return the relation of `sides` and `comparators`.

    The modulus of `x \equiv 1 \pmod 3` becomes its last side, since another modulus makes another statement.
    """
    last = sides[-1]
    if "equiv" in comparators and type(last) is Call and last.name == "mod":
        return Relation((*sides, Call("modulus", last.args[1:])), (*comparators, "equiv"))
    return Relation(sides, comparators)


_NOT_RATIO = frozenset(("end", "word", ",", "rel"))
