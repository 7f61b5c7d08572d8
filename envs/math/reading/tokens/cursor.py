"""The cursor over the tokens, shared by all parts of the grammar."""

from __future__ import annotations

from verigym.envs.latex.vocabulary import NUMBER_WORDS
from verigym.envs.math.build import div
from verigym.envs.math.reading.tokens.commands import Token
from verigym.envs.math.tree import Div, InBase, Mul, Node, ParseError, Symbol, TooLarge

MAX_DEPTH = 40

SEPARATORS = frozenset((",", ";", "and", "or", "quad", "row"))


_SAYS_AGAIN = (("rel", "="), ("rel", "approx"))
_LONGEST_CONDITION = 40
"""Tokens from its parenthesis on."""
_SIGNS = frozenset(("rel", "<", ">"))
_NARROWS = frozenset(("in", "<", ">", "<=", ">=", "!="))
_OPENING = frozenset(("(", "[", "{", "\\{"))
_CLOSING = frozenset((")", "]", "}", "\\}"))


class Cursor:
    """Reads tokens from left to right. The parts of the parser are mix-ins that call each other through these methods."""

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.at = 0
        self.depth = 0
        self.kind = tokens[0][0]
        self.bars = ""  # the kind of bar that closes: inside |...| one after an operand does
        self.builder = False  # inside {...}: a bar or a colon after the first element opens the condition
        self.plain_set = False  # inside TeX's braces that are nobody's argument: a lone bar after an operand, the same
        self.angles = False  # inside <...>: a `>` closes
        self.lettered = False  # the answer begins with the letter of a choice
        self.integrals = 0  # inside an integral: a `d` before a letter ends the integrand
        self.approaching = False  # below a limit: a sign may be the side from which it is approached
        self.bound: frozenset[str] = frozenset()  # indices of sums: `i` is a variable there
        self.nodes: dict[int, Node] = {}  # nodes that stand in the tokens already read, by place
        self._seen: set[str] = set()
        self._looked_to = 0

    def take(self) -> Token:
        """Return the current token and move to the next."""
        token = self.tokens[self.at]
        if self.at + 1 == len(self.tokens):
            raise self.error("more expected")
        self.at += 1
        self.kind = self.tokens[self.at][0]
        return token

    def ahead(self, places: int = 1) -> str:
        """Return the kind of the token that is `places` after the current one."""
        place = self.at + places
        return self.tokens[place][0] if place < len(self.tokens) else "end"

    def jump(self, place: int) -> None:
        """Move to the token number `place`."""
        self.at = place
        self.kind = self.tokens[place][0]

    def expect(self, kind: str) -> None:
        """Move past the current token if it is of `kind`, else raise ParseError."""
        if self.kind != kind:
            raise self.error(f"{kind!r} expected")
        self.take()

    def offers(self) -> bool:
        r"""Return whether a parenthesis begins here that repeats the value in another form, as in `1/2 (or 0.5)`.

        A parenthesis such as `(or maybe 4)` consists of words and does not count. One with a percentage, as in `1/2 (50\%)`,
        does at the end.
        """
        if self.kind != "(" or self.at in self.nodes:
            return False
        return (self.ahead() == "or" and self.ahead(2) != "word") or self.gives_percentage()

    def gives_percentage(self) -> bool:
        """Return whether a parenthesis begins here, after a space and at the end, that holds a percentage."""
        kinds = tuple(self.ahead(places) for places in range(1, 5))
        return self.tokens[self.at][2] and kinds == ("num", "%", ")", "end")

    def says_again(self) -> bool:
        """Return whether a parenthesis begins here that repeats the value after a sign of equality, as in `1/2 (= 0.5)`."""
        return self.kind == "(" and self.tokens[self.at + 1][:2] in _SAYS_AGAIN and self.at not in self.nodes

    def states_condition(self) -> bool:
        r"""Return whether a parenthesis begins here that says what a name before it may be, as in `2k (k \in Z)`.

        `P(X > 2)` is a call, of an event.
        """
        if self.kind != "(" or self.at in self.nodes:
            return False
        last = self.at - 1
        called = self.tokens[last][1] if self.tokens[last][0] == "sym" and self.tokens[last][1].isupper() else ""
        deep, names, compares, counts, goes_on = 0, set[str](), False, False, False
        for kind, text, _, _ in self.tokens[self.at + 1 : self.at + _LONGEST_CONDITION]:
            deep += (kind in _OPENING) - (kind in _CLOSING)
            if deep < 0:
                break
            if kind == "sym":
                names.add(text)
            elif deep == 0 and kind in _SIGNS:
                counts = counts or text == "="
                compares = compares or text in _NARROWS
            goes_on = goes_on or kind == "dots"
        else:
            return False
        return (compares or (counts and goes_on)) and called in names | {""} and not names.isdisjoint(self._names_before())

    def _names_before(self) -> set[str]:
        """Return the names in the tokens up to here."""
        for kind, text, _, _ in self.tokens[self._looked_to : self.at]:
            if kind == "sym":
                self._seen.add(text)
        self._looked_to = max(self._looked_to, self.at)
        return self._seen

    def error(self, why: str) -> ParseError:
        """Return the error to raise for the reason `why`, with the current token and its position in the message."""
        kind, text, _, place = self.tokens[self.at]
        token = "the end" if kind == "end" else repr(text[:30])
        return ParseError(f"{why}, found {token} at {place} near {self.text[max(0, place - 15) : place + 15]!r}")

    def quotient(self, top: Node, bottom: Node) -> Node:
        r"""Return the quotient `top / bottom`.

        Raises:
            ParseError: `bottom` starts with `\partial` but the fraction is no derivative; `\partial` must not be cancelled like
                a number.
        """
        node = div(top, bottom)
        below = bottom.factors[0] if type(bottom) is Mul else bottom
        if type(node) is Div and below == Symbol("partial"):
            raise self.error(r"a partial derivative that cannot be read; write \frac{\partial f}{\partial x}")
        return node

    def enter(self) -> None:
        """Enter one more level of nesting; the caller leaves it by `self.depth -= 1`.

        Raise `TooLarge` if there are too many levels.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge(f"nested deeper than {MAX_DEPTH} levels")

    def relation(self) -> Node:
        """Read sides with comparators between them and return the relation, or the only side."""
        raise NotImplementedError

    def sum(self) -> Node:
        """Read a sum of terms and return its tree."""
        raise NotImplementedError

    def product(self) -> Node:
        """Read a product of factors and return its tree."""
        raise NotImplementedError

    def factor(self) -> Node:
        """Read an atom with the powers and signs attached to it, and return the tree."""
        raise NotImplementedError

    def atom(self) -> Node:
        """Read a number, a name, a bracket or a function, and return its tree."""
        raise NotImplementedError

    def items(self, closers: frozenset[str]) -> tuple[list[Node], str, bool]:
        """Read elements up to a token whose kind is in `closers`.

        Returns:
            The elements, how they are joined, and whether the last token read was a separator.
        """
        raise NotImplementedError

    def group(self, free: bool = False) -> Node | None:
        """Read TeX's braces and return their content; None if empty. With `free`, the braces may be a set in plain text."""
        raise NotImplementedError

    def argument(self) -> Node:
        """Read one argument as TeX does, and return its tree: a group, a command or a single character."""
        raise NotImplementedError

    def bracket(self) -> Node:
        """Read parentheses, brackets, braces or angle brackets, and return the tree."""
        raise NotImplementedError

    def script(self) -> Node:
        """Read a superscript and return its tree."""
        raise NotImplementedError

    def subscript(self) -> str:
        """Read a subscript and return its text."""
        raise NotImplementedError


def in_base(cursor: Cursor, digits: str, base: str) -> InBase:
    """Return the number with `digits` in base `base`. Raise ParseError if the base does not have one of the digits."""
    name = base.strip("()").removeprefix("base").strip().lower()
    number = int(name) if name.isdigit() and len(name) < 3 else NUMBER_WORDS.get(name, 0)
    if not 2 <= number <= 36:
        raise cursor.error(f"{base[:20]!r} is no base")
    plain = digits.replace(".", "", 1)
    if not plain.isascii() or not plain.isalnum():
        raise cursor.error(f"{digits[:20]!r} are no digits")
    if any(int(digit, 36) >= number for digit in plain):
        raise cursor.error(f"{digits[:20]} is no number in base {number}")
    return InBase(digits.upper(), number)
