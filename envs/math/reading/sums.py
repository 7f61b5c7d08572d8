r"""Grammar of sums, products and factors with their powers and signs.

A product without a sign binds as tightly as one with a sign, from left to right: `1/2x` is x/2, `1/2\pi r` is (1/2) pi r. There
is one exception: if a denominator begins with a letter, the letters right after that letter belong to the denominator, so
`a/bc` is a/(bc) and `dy/dx` is a derivative.
"""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.latex.units import known_unit
from verigym.envs.math.build import add, bare, mul, power, times
from verigym.envs.math.reading.quantities.degrees import Degrees
from verigym.envs.math.reading.tokens.cursor import in_base
from verigym.envs.math.tree import (
    Add,
    Call,
    Div,
    Listing,
    Mul,
    NamedSet,
    Neg,
    Node,
    Number,
    Percent,
    Phrase,
    PlusMinus,
    Relation,
    SetOp,
    Symbol,
    Text,
)  # fmt: skip

_SIGNS = frozenset(("+", "-", "±"))
_MAX_SIGNS = 4
_ADJACENT = frozenset("num sym const ( [ { frac sqrt cbrt root binom func big lbar ⌊ ‖ accent shape begin dots money".split())
_GOES_ON = _ADJACENT | {"*", "/", "|", "mod"}
_ATTACHED = frozenset(("^", "!", "%", "circ", "'", "_"))
_SETS = frozenset("ABCDESUVXYZ")
_VECTORS = (Symbol, Add, Mul, Neg, Div)
_UNIT_WORDS = frozenset(("word", "unit"))
_STARS = frozenset(("*", "ast", "star"))
_NO_FACTORS = (Text, Phrase, Listing, Relation)


class Sums(Degrees):
    """The part of the parser that reads terms, factors and powers."""

    def sum(self) -> Node:
        """Read a sum of terms and return its tree."""
        kind = self.kind
        first = self._signed(False) if kind in _SIGNS else self.product()
        if self.kind not in _SIGNS:
            return first
        terms = [first]
        while self.kind in _SIGNS:
            terms.append(self._signed(False))
        return add(terms)

    def _signed(self, only_factor: bool) -> Node:
        """Read signs and what they stand before."""
        signs: list[str] = []
        while self.kind in _SIGNS:
            kind, what, _, _ = self.take()
            signs.append("±" + what if kind == "±" else kind)
        if len(signs) > _MAX_SIGNS:
            raise self.error("too many signs")
        node = self.factor() if only_factor else self.product()
        if type(node) in _NO_FACTORS:
            raise self.error("a sign before words or relations")
        for sign in reversed(signs):
            if sign == "-":
                node = Neg(bare(node))
            elif sign != "+":
                node = PlusMinus(bare(node), 1 if sign == "±+" else -1)
        return node

    def product(self) -> Node:
        """Read a product of factors and return its tree."""
        start = self.at
        node = self.factor()
        if self.kind not in _GOES_ON or type(node) in _NO_FACTORS:
            return node
        factors = [node]
        while self.kind in _GOES_ON:
            kind = self.kind
            if kind == "*":
                crossed = self.take()[1] == "times"
                left, begin = factors[-1], self.at
                right = self._operand()
                if crossed and self._is_vector(left, start, begin - 1) and self._is_vector(right, begin, self.at):
                    factors[-1] = Call("cross", (left, right))
                else:
                    times(factors, right)
                    start = begin
                continue
            start = self.at
            if kind == "/":
                self.take()
                factors = [self.quotient(mul(factors), self._denominator())]
            elif kind == "mod":
                self.take()
                factors = [Call("mod", (mul(factors), self._operand()))]
            elif not self._adjacent(kind, factors):
                break
        return mul(factors)

    def _is_vector(self, node: Node, start: int, end: int) -> bool:
        r"""Tell vectors and sets, whose `\times` has an order, from numbers: `\vec{a}`, `A`, but not `L` of a length."""
        if type(node) is Call:
            return node.name == "cross"
        if type(node) is Symbol and node.name in _SETS or type(node) in (NamedSet, SetOp):
            return True
        return any(token[:2] == ("accent", "vec") for token in self.tokens[start:end]) and type(node) in _VECTORS

    def _operand(self) -> Node:
        node = self._signed(True) if self.kind in _SIGNS else self.factor()
        if type(node) in _NO_FACTORS:
            raise self.error("words or relations as a factor")
        return node

    def _denominator(self) -> Node:
        letter = self.kind == "sym"
        node = self._operand()
        if not letter:
            return node
        parts = [node]
        while self.kind in ("sym", "const") and not self.tokens[self.at][2] and not self._ends_integral():
            parts.append(self.factor())
        return mul(parts)

    def _adjacent(self, kind: str, factors: list[Node]) -> bool:
        """Multiply by what follows without a sign; False where the product ends."""
        tokens, at = self.tokens, self.at
        before = tokens[at - 1][0]
        if kind == "num" and before == "num":
            return False
        if kind == "sym":
            if tokens[at][1] == "x" and before == "num" and self.ahead() == "num":  # 2x3, 12 x 18
                self.take()
                times(factors, self._operand())
                return True
            if self.integrals and self._ends_integral():
                return False
        elif kind == "|":
            if self.bars or self.builder or not self._opens_bars():
                return False
        elif (
            kind == "‖"
            and self.bars == kind
            or kind == "["
            and self._closes_backwards()
            or kind == "dots"
            and type(factors[-1]) is Number
        ):
            return False
        elif kind == "money" and before == "num" or kind == "(" and self.ahead() in _UNIT_WORDS and self._names_unit():
            return False
        elif kind == "(" and (self.offers() or self.says_again() or self.states_condition()):
            return False  # (or 0.5), (= 0.5), (k > 0)
        node = self.factor()
        if type(node) in _NO_FACTORS:
            self._hold(node)
            return False
        factors.append(node)
        return True

    def _names_unit(self) -> bool:
        """Tell the parentheses of `12 (square units)`."""
        names = [token[1] for token in self.tokens[self.at + 1 : self.at + 4] if token[0] in _UNIT_WORDS]
        last = self.ahead(len(names) + 1) == ")"
        return last and any(len(name) > 1 and known_unit(name) for name in names)

    def _hold(self, node: Node) -> None:
        """Put a node that was read in place of its last token, for a phrase to take."""
        place = self.at - 1
        _, text, spaced, position = self.tokens[place]
        self.tokens[place] = ("node", text, spaced, position)
        self.nodes[place] = node
        self.jump(place)

    def _ends_integral(self) -> bool:
        return self.integrals > 0 and self.tokens[self.at][1] == "d" and self.ahead() == "sym"

    def _opens_bars(self) -> bool:
        """Tell the bar of `2|x|` from the one of `3|6`: another one follows before the bracket closes."""
        deep = 0
        for kind, _, _, _ in self.tokens[self.at + 1 :]:
            if kind == "|" and deep == 0:
                return True
            if kind in ("(", "[", "{", "\\{"):
                deep += 1
            elif kind in (")", "]", "}", "\\}"):
                deep -= 1
                if deep < 0:
                    return False
            elif kind in ("rel", "<", ">", ","):
                return False
        return False

    def _closes_backwards(self) -> bool:
        """Tell the closing bracket of `[0,1[`."""
        return self.ahead() in ("end", "setop", ",", ")", "\\}", "and", "or", ".", "}", "rel")

    def factor(self) -> Node:
        """Read an atom with its powers, primes, factorials and signs of percent or degree, and return the tree."""
        node = self.atom()
        while self.kind in _ATTACHED:
            kind = self.kind
            if type(node) in (Text, Phrase):
                break
            if kind == "^":
                node = self._raised(node)
            elif kind == "!":
                self.take()
                double = self.kind == "!" and not self.tokens[self.at][2]
                if double:
                    self.take()
                if type(node) is Call and "factorial" in node.name and self.depth > 40:
                    raise self.error("too many factorials")
                node = Call("doublefactorial" if double else "factorial", (bare(node),))
            elif kind == "%":
                sign = self.take()[1]
                if type(node) is Percent:
                    raise self.error("two signs of percent")
                node = Percent(bare(node)) if sign == "%" else Div(bare(node), Number(Fraction(1000)))
            elif kind == "circ":
                node = self.degrees(node)
            elif kind == "_":
                node = self._based(node)
            else:
                break
        return node

    def _raised(self, base: Node) -> Node:
        after = self.ahead()
        if self.approaching and (side := self._side(base)):
            return side
        if after == "circ" or (after == "{" and self.ahead(2) == "circ"):
            self.take()
            if after == "circ":
                return self.degrees(base)
            self.take()
            node = self.degrees(base)
            self.expect("}")
            return self.finished(node)
        if after == "'" or (after == "{" and self.ahead(2) == "'"):
            return self._primed(base)
        if type(base) is Symbol and self.tokens[self.at + 1][1] in _STARS:  # x^*
            self.jump(self.at + 2)
            return Symbol(f"{base.name}^*")
        if type(base) is Symbol and after == "{" and self.ahead(2) == "*" and self.ahead(3) == "}":
            self.jump(self.at + 4)
            return Symbol(f"{base.name}^*")
        self.take()
        return power(base, self.script())

    def _side(self, base: Node) -> Node | None:
        r"""Read the sign of `x \to 0^+`, from which side a limit is approached; None, and nothing read, if there is none."""
        braced = self.ahead() == "{"
        sign, behind = self.ahead(1 + braced), self.ahead(2 + braced)
        if sign not in ("+", "-") or behind not in (("}",) if braced else ("}", ")", "end")):
            return None
        self.jump(self.at + 2 + 2 * braced)
        return Call("above" if sign == "+" else "below", (bare(base),))

    def _primed(self, base: Node) -> Node:
        r"""Read `x^{\prime}`."""
        self.take()
        braced = self.kind == "{"
        if braced:
            self.take()
        primes = ""
        while self.kind == "'":
            primes += self.take()[1]
        if braced:
            self.expect("}")
        if type(base) is not Symbol or len(primes) > 3:
            raise self.error("primes on no name")
        return Symbol(base.name + primes)

    def script(self) -> Node:
        """Read a superscript and return its tree."""
        self.enter()
        kind = self.kind
        if kind in ("-", "+", "±"):
            what = self.take()[1]
            node = self.script()
            node = node if kind == "+" else Neg(node) if kind == "-" else PlusMinus(node, 1 if what == "+" else -1)
        elif kind == "*":
            raise self.error("an exponent expected")
        else:
            node = bare(self.atom())
            if self.kind == "^":  # 2^3^2
                self.take()
                node = power(node, self.script())
        self.depth -= 1
        if type(node) in _NO_FACTORS:
            raise self.error("words or relations as an exponent")
        return node

    def _based(self, node: Node) -> Node:
        """Read the base behind a bracket: `(1012)_3`."""
        before = self.tokens[self.at - 2] if self.at > 1 and self.tokens[self.at - 1][0] == ")" else None
        if type(node) is not Number or before is None or before[0] != "num" or node.style != "plain":
            raise self.error("a subscript on no name")
        self.take()
        return in_base(self, before[1], self.subscript())
