"""Grammar of brackets: parentheses, intervals, sets, bars, TeX's groups and arguments."""

from __future__ import annotations

from verigym.envs.math.build import bare
from verigym.envs.math.numerals import literal
from verigym.envs.math.reading.tokens.cursor import Cursor
from verigym.envs.math.tree import Call, Constant, Group, Listing, Matrix, NamedSet, Node, SetBuilder, Symbol

_ROUND = frozenset((")", "]", "[", "nothing"))
_BRACE = frozenset(("\\}", "nothing"))
_TEX = frozenset(("}",))
_ANGLE = frozenset(("⟩", ">"))


class Brackets(Cursor):
    """The part of the parser that reads parentheses, intervals, sets, absolute values and groups."""

    def _inside(self, closers: frozenset[str]) -> tuple[list[Node], str, bool]:
        """Read the elements in a bracket, with the state of its surroundings set aside."""
        saved = self.bars, self.builder, self.integrals
        self.bars, self.builder, self.integrals = "", False, 0
        self.enter()
        elements = self.items(closers)
        self.depth -= 1
        self.bars, self.builder, self.integrals = saved
        return elements

    def bracket(self) -> Node:
        """Read parentheses, square brackets or an interval (also `]0,1[`), and return the tree."""
        known = self.nodes.get(self.at)
        opening = self.take()[0]
        if known is not None:
            return known
        nested = opening == "[" and self.kind == "[" and self.ahead() != "["
        closers = _CLOSING if opening == "(" else SQUARE if nested else _ROUND
        items, joiner, trailing = self._inside(closers)
        closing = self.kind
        if closing not in closers or closing == "nothing":
            raise self.error(f"{opening!r} is not closed")
        self.take()
        if opening == "]" or closing == "[":
            opening = "(" if opening == "]" else opening
            closing = ")" if closing == "[" else closing
            if len(items) != 2:
                raise self.error("an interval has two ends")
        if opening == "(" and closing == ")":
            return self._round(items, joiner, trailing)
        if len(items) < 2 and (opening != "[" or closing != "]"):
            raise self.error("an interval has two ends")
        if len(items) == 1 and type(items[0]) is Matrix:
            return items[0]
        rows = [item.items for item in items if type(item) is Group and item.opening == "[" and item.closing == "]"]
        if nested and len(rows) == len(items) and len({len(row) for row in rows}) == 1:
            return Matrix(tuple(rows))
        return Group(opening, closing, tuple(items))

    def _round(self, items: list[Node], joiner: str, trailing: bool) -> Node:
        """Make of what stood in parentheses a tuple, a list, or what it is without them."""
        if not items:
            raise self.error("empty parentheses")
        if len(items) == 1 and not trailing:
            return items[0]
        if joiner != "comma":
            return Listing(tuple(items), "or" if joiner == "or" else "and")
        return Group("(", ")", tuple(items))

    def braces(self) -> Node:
        """Read a set, either its elements or an element and a condition, and return its tree."""
        self.take()
        if self.kind == "begin":
            return self._system()
        saved = self.bars, self.builder, self.integrals
        self.bars, self.builder, self.integrals = "", True, 0
        self.enter()
        items, _, _ = self.items(_SET_STOPS)
        node = self._condition(items, _BRACE) if self.kind in ("|", ":") else None
        self.depth -= 1
        self.bars, self.builder, self.integrals = saved
        if self.kind != "\\}":
            raise self.error("a brace is not closed")
        self.take()
        if node is not None:
            return node
        return Group("{", "}", tuple(items)) if items else NamedSet("empty")

    def _system(self) -> Node:
        r"""Read `\left\{ \begin{array}... \end{array} \right.`."""
        node = self.atom()
        if self.kind in ("nothing", "\\}"):
            self.take()
        return node

    def _condition(self, items: list[Node], closers: frozenset[str]) -> Node:
        self.take()
        self.builder = False
        conditions, joiner, _ = self.items(closers)
        if not items or not conditions:
            raise self.error("an element and a condition expected")
        element = items[0] if len(items) == 1 else Group("(", ")", tuple(items))
        condition = conditions[0]
        if len(conditions) > 1:
            condition = Listing(tuple(conditions), "or" if joiner == "or" else "and" if joiner == "and" else "comma")
        return SetBuilder(element, condition)

    def group(self, free: bool = False) -> Node | None:
        """Read TeX's braces and return their content, which may be a list; None if they are empty.

        With `free`, the braces may be those of a set in plain text.
        """
        self.take()
        if self.kind == "}":
            self.take()
            return None
        saved = self.bars, self.builder, self.plain_set
        self.bars, self.builder, self.plain_set = "", False, free
        self.enter()
        items, joiner, _ = self.items(_TEX_STOPS)
        node = self._condition(items, _TEX) if self.kind == "|" and free else None
        self.depth -= 1
        self.bars, self.builder, self.plain_set = saved
        if self.kind != "}":
            raise self.error("a brace is not closed")
        self.take()
        if node is not None:
            return node
        if not items:
            return None
        if len(items) == 1:
            return items[0]
        if joiner != "comma":
            return Listing(tuple(items), "or" if joiner == "or" else "and")
        return Group("tex{", "}", tuple(items))

    def braced(self) -> Node:
        """Read TeX's braces as an atom and return its tree. Empty braces print nothing."""
        node = self.group(free=True)
        if node is not None:
            return node
        if self.kind in ("_", "^") and self.ahead() != "circ" and self.ahead(2) != "circ":
            return self.before_index()
        if self.kind in ("^", "!") or self.kind == "end":
            raise self.error("nothing in braces")
        return self.atom()

    def before_index(self) -> Node:
        """Read combinations or permutations with an index before the letter, `{}_5C_2`, `_5P_2` or `{}_{2n}C_n`."""
        self.take()
        upper = self._index()
        name = self.take()
        if name[0] != "sym" or name[1] not in ("C", "P") or self.kind != "_":
            raise self.error("an index before no name")
        self.take()
        lower = self._index()
        return Call("binom" if name[1] == "C" else "perm", (upper, lower))

    def _index(self) -> Node:
        """Read an index: a number of up to nine digits, a letter or a formula in braces."""
        braced = self.kind == "{"
        if self.ahead(braced) == "end" or (self.tokens[self.at + braced][0] == "num" and self.ahead(1 + braced) != "sym"):
            return literal(self.subscript_number())
        return self.argument()

    def subscript_number(self) -> str:
        """Read a number in a subscript and return its digits."""
        digits = self.subscript()
        if not digits.isdigit() or not digits.isascii() or len(digits) > 9:
            raise self.error("an index that is no number")
        return digits

    def angled(self) -> Node:
        """Read a vector in angle brackets and return its tree."""
        self.take()
        saved, self.angles = self.angles, True
        items, _, _ = self._inside(_ANGLE)
        self.angles = saved
        if self.kind not in _ANGLE or not items:
            raise self.error("an angle is not closed")
        self.take()
        return Group("<", ">", tuple(items))

    def absolute(self) -> Node:
        """Read an absolute value or a norm and return its tree. A token `lbar` can only open it, and `rbar` only close it."""
        opening = self.take()[0]
        closing = {"lbar": "rbar", "|": "|", "‖": "‖"}[opening]
        saved = self.bars, self.builder, self.integrals
        self.bars, self.builder, self.integrals = ("" if opening == "lbar" else opening), False, 0
        self.enter()
        node = self.relation()
        self.depth -= 1
        self.bars, self.builder, self.integrals = saved
        if self.kind != closing and not (closing == "rbar" and self.kind == "|"):
            raise self.error("a bar is not closed")
        self.take()
        if opening == "‖":
            return Call("norm", (node,))
        return Call("det" if type(node) is Matrix else "abs", (bare(node),))

    def rounded(self) -> Node:
        r"""Read a floor or ceiling such as `\lfloor x \rfloor` and return its tree."""
        _, which, _, _ = self.take()
        self.enter()
        node = self.relation()
        self.depth -= 1
        if self.kind != "⌋" or self.tokens[self.at][1] != which:
            raise self.error("a floor or a ceiling is not closed")
        self.take()
        return Call(which, (bare(node),))

    def argument(self) -> Node:
        r"""Read one argument as TeX does, and return its tree. An argument is a group, a command or a character.

        For example, `\frac12` has the arguments 1 and 2.
        """
        self.enter()
        kind, text, spaced, place = self.tokens[self.at]
        node: Node | None
        if kind == "{":
            node = self.group()
            if node is None:
                raise self.error("an empty argument")
        elif kind == "num" and text.isdigit():
            if len(text) > 1:
                self.tokens[self.at] = ("num", text[1:], False, place + 1)
                node = literal(text[0])
            else:
                self.take()
                node = literal(text)
        elif kind in ("sym", "const"):
            self.take()
            node = Symbol(text) if kind == "sym" else Constant(text)  # type: ignore[arg-type]
        elif kind in _ARGUMENTS:
            node = self.atom()
        else:
            raise self.error("an argument expected")
        self.depth -= 1
        return bare(node)


SQUARE = frozenset(("]",))
_ARGUMENTS = frozenset("frac sqrt binom accent set func ⌊ lbar".split())
_CLOSING = frozenset((")", "]", "nothing"))
_SET_STOPS = frozenset(("\\}", "|", ":", "nothing"))
_TEX_STOPS = frozenset(("}", "|"))
