"""Atoms of the grammar: numbers, names and words; dispatch to brackets, functions and environments."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from verigym.envs.latex.vocabulary import ALWAYS_WORDS
from verigym.envs.math.numerals import literal
from verigym.envs.math.reading.brackets import SQUARE, Brackets
from verigym.envs.math.reading.calls import Calls
from verigym.envs.math.reading.environments import Environments
from verigym.envs.math.reading.quantities.literals import HEX, Numbers
from verigym.envs.math.reading.tokens.cursor import in_base
from verigym.envs.math.tree import (
    Call,
    Constant,
    Ellipsis,
    NamedSet,
    Node,
    Number,
    Quantity,
    Root,
    Symbol,
    Text,
)  # fmt: skip


class Atoms(Numbers, Brackets, Calls, Environments):
    """The part of the parser that reads atoms, with one method for each kind of token."""

    def atom(self) -> Node:
        """Read a number, a name, a bracket or a function, and return its tree."""
        read = _READERS.get(self.kind)
        if read is None:
            raise self.error("a number, a name or a bracket expected")
        return read(self)

    def _fraction(self) -> Node:
        known = self.nodes.get(self.at)
        self.take()
        if known is not None:
            return known
        self.enter()
        top = self.argument()
        node = self.quotient(top, self.argument())
        self.depth -= 1
        return node

    def _words(self) -> Node:
        """Read words in a row; a single letter is a name."""
        words = [self.take()[1]]
        while self.kind == "word" or self.kind == "unit":
            words.append(self.take()[1])
        if len(words) == 1 and len(words[0]) == 1:
            if self.kind == "(" and not self.tokens[self.at][2]:
                return self.applied(words[0])
            if words[0] in ("e", "i") and self.kind not in ("_", "'"):
                return Constant(words[0])  # type: ignore[arg-type]
            name = words[0] + (self._lowered(words[0]) if self.kind == "_" else "")
            while self.kind == "'":
                name += self.take()[1]
            return Symbol(name)
        if len(words) == 1 and self.kind == "_" and set(words[0]) <= HEX:
            self.take()
            return in_base(self, words[0], self.subscript())
        if (
            len(words) == 1
            and words[0].isupper()
            and words[0].isascii()
            and len(words[0]) <= 5
            and words[0] not in ALWAYS_WORDS
        ):
            return Symbol(words[0])  # \\text{ACF} is the same as ACF
        if self.kind == "sym" and self.tokens[self.at][1].isupper() and self.ahead() in _ENDS:  # Option B
            words.append(self.take()[1])
        return Text(" ".join(words))

    def _lowered(self, _: str) -> str:
        self.take()
        lower = self.subscript()
        return f"_{lower}" if len(lower) == 1 else f"_{{{lower}}}"

    def _root(self) -> Node:
        self.take()
        self.enter()
        degree: Node = Number(Fraction(2))
        if self.kind == "[":
            self.take()
            items, _, _ = self._inside(SQUARE)
            if self.kind != "]" or len(items) != 1:
                raise self.error("the degree of a root expected")
            self.take()
            degree = items[0]
        node = Root(self._radicand(), degree)
        self.depth -= 1
        return node

    def _radicand(self) -> Node:
        r"""Read under a root: a group, parentheses, or a whole number (`\sqrt10` is meant as the root of ten)."""
        if self.kind == "(":
            node = self.bracket()
        elif self.kind == "num":
            node = literal(self.take()[1])
        elif self.kind == "word":
            node = self._words()
        else:
            node = self.argument()
        return node

    def _cube_root(self) -> Node:
        self.take()
        self.enter()
        node = Root(self._radicand(), Number(Fraction(3)))
        self.depth -= 1
        return node

    def _binomial(self) -> Node:
        self.take()
        self.enter()
        top = self.argument()
        node = Call("binom", (top, self.argument()))
        self.depth -= 1
        return node

    def _money(self) -> Node:
        unit = self.take()[1]
        self.enter()
        value = self.factor()
        self.depth -= 1
        return Quantity(value, unit)

    def _constant(self) -> Node:
        name = self.take()[1]
        if self.kind == "_" or name in self.bound or (name == "i" and self.kind == "("):
            return self.named(name)
        return Constant(name)  # type: ignore[arg-type]

    def _set(self) -> Node:
        name = self.take()[1]
        node = NamedSet(name)  # type: ignore[arg-type]
        if self.kind == "^" or self.kind == "_":
            return self._powered_set(name)
        return node

    def _powered_set(self, name: str) -> Node:
        r"""Read `\mathbb{R}^+` and `\mathbb{Z}_{>0}` as names."""
        while self.kind in ("^", "_"):
            raised = self.take()[0] == "^"
            name += ("^" if raised else "_") + self.subscript()
        return Symbol(name)

    def _dots(self) -> Node:
        self.take()
        return Ellipsis()

    def subscript(self) -> str:
        """Read a subscript and return its text without blanks."""
        if self.kind != "{":
            if self.kind in ("end", "}", ")"):
                raise self.error("a subscript expected")
            return self.take()[1]
        self.take()
        parts: list[str] = []
        deep = 0
        while self.kind != "end":
            kind, text, _, _ = self.take()
            if kind == "{":
                deep += 1
            elif kind == "}":
                deep -= 1
                if deep < 0:
                    return "".join(parts)
                continue
            if kind != "{":
                parts.append(text)
        raise self.error("a subscript is not closed")


_ENDS = frozenset(("end", ",", ".", ")", "}", "and", "or", ";"))
_READERS: dict[str, Callable[[Atoms], Node]] = {
    "num": Atoms.number, "sym": Atoms.name, "const": Atoms._constant, "word": Atoms._words, "unit": Atoms._words,
    "(": Atoms.bracket, "[": Atoms.bracket, "]": Atoms.bracket, "\\{": Atoms.braces, "{": Atoms.braced,
    "⟨": Atoms.angled, "<": Atoms.angled, "|": Atoms.absolute, "lbar": Atoms.absolute, "‖": Atoms.absolute, "⌊": Atoms.rounded,
    "frac": Atoms._fraction, "sqrt": Atoms._root, "cbrt": Atoms._cube_root, "binom": Atoms._binomial, "func": Atoms.function,
    "big": Atoms.big, "accent": Atoms.accent, "shape": Atoms.shape, "begin": Atoms.environment, "dots": Atoms._dots,
    "money": Atoms._money, "set": Atoms._set, ".": Atoms.point, "_": Atoms.before_index,
    "^": Atoms.before_index,
}  # fmt: skip
