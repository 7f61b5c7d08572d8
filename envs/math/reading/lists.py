"""Outermost level of the grammar, also inside brackets: elements, separators, and words among formulas."""

from __future__ import annotations

from verigym.envs.math.build import div
from verigym.envs.math.reading.relations import congruence
from verigym.envs.math.reading.tokens.cursor import SEPARATORS, Cursor
from verigym.envs.math.tree import Call, Listing, NamedSet, Node, Phrase, Relation, Symbol, Text

_END = frozenset(("end",))
_ROUND = frozenset((")",))
_OPERAND_STARTS = frozenset("num sym const word unit frac sqrt func ( [ \\{ { - money accent begin big".split())


class Lists(Cursor):
    """The part of the parser that reads complete answers, the elements of lists, and phrases."""

    def answer(self) -> Node:
        """Read the whole text and return its tree."""
        choice = self._choice()
        self.lettered = choice is not None
        if self.kind == "rel" and self.tokens[self.at][1] in ("=", "approx"):  # "= 5" is the end of a calculation
            self.take()
        items, joiner, _ = self.items(_END)
        if self.kind != "end":
            raise self.error("nothing opened")
        if choice is not None and len(items) > 1 and all(map(_is_labelled, items[1:])):
            items[0], choice = Phrase((choice, items[0])), None
        if not items:
            if choice is not None:
                return choice
            raise self.error("an answer expected")
        whole = items[0] if len(items) == 1 else self.listing(items, joiner)
        return Phrase((choice, whole)) if choice is not None else whole

    def listing(self, items: list[Node], joiner: str) -> Node:
        r"""Return the elements `items` as a list without brackets, joined by `joiner`.

        A modulus at the end, as in `x \equiv 1, 2 \pmod 3`, belongs to all of them.
        """
        items = _congruences(items)
        return Listing(tuple(items), "or" if joiner == "or" else "and" if joiner == "and" else "comma")

    def _choice(self) -> Node | None:
        """Step over the letter of a multiple choice before its text: `(C) 12`, `C. 12`, `C) 12`; `(C)` alone is no such."""
        tokens = self.tokens[self.at : self.at + 5] if self.at else self.tokens
        kinds = [token[0] for token in tokens[:4]]
        if kinds[0] == "(" and kinds[2:3] == [")"]:
            place = 1
        elif kinds[0] in ("sym", "word") and kinds[1:2] in ([")"], ["."]):
            place = 0
        elif kinds[0] in ("sym", "word") and kinds[1:2] == [":"] and len(tokens) > 2 and tokens[2][2]:
            place = 0
        else:
            return None
        letter = tokens[place][1]
        after = tokens[place + 2 if place < len(tokens) - 2 else -1]
        if len(letter) != 1 or not "A" <= letter <= "Z" or (place == 1 and after[0] not in _OPERAND_STARTS | {"."}):
            return None
        if place == 1 and tokens[1][0] == "sym" and (after[0] in ("-", "(", "{", "[") or (after[0] != "word" and not after[2])):
            return None  # a product: (A)(B), (A)x
        self.jump(self.at + place + 2)
        return Symbol(letter)

    def items(self, closers: frozenset[str]) -> tuple[list[Node], str, bool]:
        """Read elements up to a token whose kind is in `closers`.

        Returns:
            The elements, how they are joined, and whether the last token read was a separator.
        """
        items: list[Node] = []
        joiner = "comma"
        separated = False
        while True:
            kind = self.kind
            opens = kind == "|" and kind in closers and (separated or not items)  # no bar closes before an element
            if (kind in closers and not opens) or kind == "end":
                if separated and self.tokens[self.at - 1][0] in ("and", "or"):  # "3 or"
                    items.append(Text(joiner))
                return items, joiner, separated
            if kind in ("and", "or") and not items:  # "(or 4)" is no 4
                self.take()
                items.append(self._phrase(Text(kind), closers))
                continue
            if kind == "(" and items and not separated and self.offers():
                items += self._aside()
                joiner = "or"
                continue
            if kind in SEPARATORS:
                if kind == "," and (not items or (separated and self.tokens[self.at - 1][0] == ",")):
                    raise self.error("an element expected before a comma")
                if kind == "or" or (kind == "and" and joiner != "or"):
                    joiner = kind
                self.take()
                if kind == "or" and self.kind == "word" and self.tokens[self.at][1].lower() == "equivalently":
                    self.take()
                separated = bool(items)
                continue
            if kind == "." and self.ahead() in ("end", "nothing", "}") or kind == "nothing" and "nothing" not in closers:
                self.take()
                continue
            label = self._choice() if self.lettered and closers is _END and separated else None
            item = self._item(closers)
            items.append(item if label is None else Phrase((label, item)))
            separated = False

    def _aside(self) -> list[Node]:
        r"""Read the `(or 0.5)` of `\frac12 (or 0.5)`: another notation or a second answer."""
        self.enter()
        self.jump(self.at + (1 if self.gives_percentage() else 2))
        elements, _, _ = self.items(_ROUND)
        self.expect(")")
        self.depth -= 1
        return elements or [Text("or")]

    def _item(self, closers: frozenset[str]) -> Node:
        node = self._negated() if self.kind == "not" else self.relation()
        if is_proposition(node) and self.tokens[self.at][1] in LOGIC:
            node = self._logic(node)
        kind = self.kind
        if kind in SEPARATORS or kind in closers or kind == "end" or self.offers():
            return node
        if kind == "." and self.ahead() in ("end", "}"):
            self.take()
            return node
        if kind == "over":
            return self._over(node, closers)
        return self._phrase(node, closers)

    def _negated(self) -> Node:
        r"""Read `\neg p`; what is denied of a relation or a value are words."""
        count = 0
        while self.kind == "not":
            self.take()
            count += 1
            self.enter()
        self.depth -= count
        node = self.relation()
        if not is_proposition(node):
            return Phrase((Text("not"), node))
        for _ in range(count):
            node = Call("not", (node,))
        return node

    def _logic(self, first: Node) -> Node:
        r"""Read `p \land q \lor r \Rightarrow s`: what binds tighter first, from left to right."""
        operands, operators = [first], list[str]()

        def combine() -> None:
            right = operands.pop()
            operands[-1] = Call(operators.pop(), (operands[-1], right))

        while self.tokens[self.at][1] in LOGIC:
            operator = LOGIC[self.take()[1]]
            while operators and _BINDS[operators[-1]] >= _BINDS[operator]:
                combine()
            operators.append(operator)
            operands.append(self._negated() if self.kind == "not" else self.relation())
        while operators:
            combine()
        return operands[0]

    def _over(self, top: Node, closers: frozenset[str]) -> Node:
        r"""Read TeX's `{a \over b}` and `{n \choose k}`."""
        what = self.take()[1]
        bottom = self._item(closers)
        return Call("binom", (top, bottom)) if what == "choose" else div(top, bottom)

    def _phrase(self, first: Node, closers: frozenset[str]) -> Node:
        parts: list[Node] = [first]
        while self.kind not in SEPARATORS and self.kind not in closers and self.kind != "end":
            if self.kind in _LOOSE:
                part: Node = Text(self.take()[1])
            elif self.kind == "node":
                part = self.nodes[self.at]
                self.take()
            else:
                place = self.at
                part = self.relation()
                if self.at == place:
                    raise self.error("an operator or a separator expected")
            if type(part) is Text and type(parts[-1]) is Text:
                parts[-1] = Text(f"{parts[-1].words} {part.words}")
            else:
                parts.append(part)
        while len(parts) > 1 and parts[-1] == Text("."):
            parts.pop()
        return parts[0] if len(parts) == 1 else Phrase(tuple(parts))


def _is_labelled(node: Node) -> bool:
    """Tell `(C) 3` among the elements of `(A) 1, (C) 3`."""
    return type(node) is Phrase and type(node.parts[0]) is Symbol and len(node.parts) == 2


def is_proposition(node: Node) -> bool:
    r"""Return whether `node` is a name, or names joined by logical connectives.

    Between such trees `\lor` is a logical connective. Between values or relations, it separates the elements of a list.
    """
    if type(node) is Call:
        return node.name in _BINDS or node.name == "not" or (node.name == "conj" and type(node.args[0]) is Symbol)
    return type(node) in (Symbol, NamedSet)


def _congruences(items: list[Node]) -> list[Node]:
    """Give every residue of a list its modulus, and every one the variable."""
    first, last = items[0], items[-1]
    if type(first) is not Relation or first.comparators != ("equiv",) or type(last) is not Call or last.name != "mod":
        return items
    if any(type(item) is Relation for item in items[1:]):
        return items
    residues = [first.sides[1], *items[1:-1], last.args[0]]
    return [congruence((first.sides[0], Call("mod", (one, last.args[1]))), ("equiv",)) for one in residues]


LOGIC = {
    "land": "and", "lor": "or", "oplus": "xor", "veebar": "xor", "=>": "implies", "Rightarrow": "implies",
    "Longrightarrow": "implies", "implies": "implies", "Leftrightarrow": "iff", "Longleftrightarrow": "iff", "iff": "iff",
    "leftrightarrow": "iff",
}  # fmt: skip
"""What the texts of tokens mean between names."""
_BINDS = {"and": 4, "xor": 3, "or": 3, "implies": 2, "iff": 1}
_LOOSE = frozenset((".", ":", "'", '"', "arrow", "verb", "half", "scale", "&"))
