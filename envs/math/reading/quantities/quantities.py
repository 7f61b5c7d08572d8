"""Grammar of values with units: `5 cm^2`, `$5 per hour`, `6 feet 2 inches`, `12 apples`."""

from __future__ import annotations

from verigym.envs.latex.units import dimension, is_common, is_plural, known_unit, singular
from verigym.envs.latex.vocabulary import NOT_UNITS
from verigym.envs.math.build import add, div, mul
from verigym.envs.math.reading.tokens.cursor import Cursor
from verigym.envs.math.tree import Add, Node, Number, Percent, Quantity, Symbol, Text, walk

_OPERATORS = frozenset("+-*/")
_AFTER_UNIT = _OPERATORS | frozenset(
    "end , ; and or ) ] } \\} rel . num word unit money scale celsius quad row & < > node (".split()
)
_AFTER_INCH = frozenset("end ^ , ; and or ) } \\} rel . / row".split())
_VALUE_STARTS = frozenset("num money frac sqrt (".split())
_RAISED = {"squared": "^2", "cubed": "^3"}
_VALUE_ENDS = frozenset("num } ) ] const".split())
_MEASURED = frozenset(("word", "unit", "money", "scale", "celsius"))
_NAMES = frozenset(("word", "unit", "sym", "const"))
_PARTS = {("foot", "inch"): 12, ("pound", "ounce"): 16, ("hour", "minute"): 60, ("minute", "second"): 60}


class Quantities(Cursor):
    """The part of the parser that reads values with units."""

    def measured(self) -> Node:
        """Read a sum or a product of values with units and return its tree: `12 cm + 3 cm`, `12 cm * 3 cm`."""
        first = self._quantity()
        if type(first) is not Quantity:
            return first
        terms: list[Node] = [first]
        while self.kind in _OPERATORS and self.ahead() in _VALUE_STARTS:
            kind, last = self.kind, terms[-1]
            if kind == "+" or kind == "-":
                terms.append(self._quantity())
                continue
            if type(last) is Add or (type(last) is Quantity and type(last.value) is Add):
                break
            self.take()
            right = self.factor()
            right = (self._unit(right) if self.kind in _MEASURED else None) or right
            terms[-1] = mul((last, right)) if kind == "*" else div(last, right)
        return add(terms)

    def _quantity(self) -> Node:
        """Read a sum and the unit after it."""
        node = self.sum()
        while self.kind in _MEASURED:
            quantity = self._unit(node)
            if quantity is None:
                return node
            node = self._smaller(quantity) if self.kind == "num" and type(quantity) is Quantity else quantity
        if self.kind == "(" and self.ahead() in ("word", "unit"):  # 12 (square units)
            return self._in_brackets(node)
        return node

    def _in_brackets(self, node: Node) -> Node:
        start = self.at
        if type(node) in (Quantity, Text) or len(self.tokens[start + 1][1]) < 2:  # option (A)
            return node
        self.take()
        unit = self._known(self.at)
        if unit is None or self.kind != ")":
            self.jump(start)
            return node
        self.take()
        return Quantity(node, unit)

    def _smaller(self, larger: Quantity) -> Quantity:
        """Read the 2 inches of `6 feet 2 inches`."""
        start = self.at
        digits = self.take()[1]
        unit = self._known(self.at) if self.kind in ("word", "unit") else None
        parts = _PARTS.get((larger.unit, unit or ""))
        value = larger.value
        if parts is None or unit is None or type(value) is not Number or not digits.isdigit() or int(digits[:4]) >= parts:
            self.jump(start)
            return larger
        return Quantity(Number(value.value * parts + int(digits)), unit)

    def _unit(self, node: Node) -> Node | None:
        """Read what is counted or measured; None, and nothing read, where the words say something else."""
        kind, start = self.kind, self.at
        if kind == "money" or kind == "celsius":
            return Quantity(node, self.take()[1]) if self.ahead() != "num" else None
        word = self.tokens[start][1].lower()
        if word == "per":
            if type(node) is Quantity:
                return self._rate(node)
            if self.tokens[start + 1][1] == "cent":
                self.jump(start + 2)
                return Percent(node)
        if word == "k" and not self.tokens[start][2] and self.tokens[start - 1][0] == "num":  # 5K: thousands
            return None
        if kind == "scale" or type(node) is Text or (kind == "word" and word in NOT_UNITS and not self._inch(word)):
            return None
        unit = self._known(start)
        if unit is not None and self.kind == "word":
            unit = self._described(unit, start)
        if unit is None and not any(type(part) in (Symbol, Text) for part in walk(node)):
            unit = self._unknown(_countable(node))
        if unit is None or self.kind not in _AFTER_UNIT:
            self.jump(start)
            return None
        if type(node) is not Quantity:
            return Quantity(node, unit)
        if node.unit != unit:
            self.jump(start)
            return None
        return node

    def _inch(self, word: str) -> bool:
        r"""Tell the unit of `108\text{ in}^2` from the preposition of `3\text{ in }S`: nothing that could be a set follows."""
        after = self.ahead()
        if after == "." and self.ahead(2) != "end":
            return False
        if after == "/" and known_unit(self.tokens[self.at + 2][1]) is None:
            return False
        return word == "in" and after in _AFTER_INCH and self.tokens[self.at - 1][0] in _VALUE_ENDS

    def _rate(self, node: Quantity) -> Node | None:
        """Read `$5 per hour`."""
        start = self.at
        self.take()
        unit = self._known(self.at) or self._unknown(False) if self.kind in ("word", "unit") else None
        if unit is None:
            self.jump(start)
            return None
        return Quantity(node.value, f"{node.unit}/{unit}")

    def _described(self, unit: str, start: int) -> str | None:
        """Step over `long` and `wide` behind a unit; other words make it a part of what was counted (`children tickets`)."""
        if self.tokens[self.at][1].lower() in _DESCRIPTIONS:
            self.take()
            return unit
        if self.tokens[self.at][1].lower() not in NOT_UNITS:
            self.jump(start)
            return None
        return unit

    def _known(self, start: int) -> str | None:
        """Read a unit of the table with powers, quotients and products: `cm^2`, `m/s`, `square feet`, `miles per hour`."""
        parts: list[str] = []
        while True:
            power = self._dimension()
            unit = known_unit(self.tokens[self.at][1].rstrip(".")) if self.kind in _NAMES else None
            if unit is None:
                break
            self.take()
            if self.kind == "." and self.ahead() not in ("end",):
                self.take()
            power = self._power() or self._squared() or power
            if power.startswith("^-") and parts and parts[-1] == "*":  # m s^{-1}
                parts[-1], power = "/", f"^{power[2:]}" if power != "^-1" else ""
            parts.append(unit + power)
            if self.kind == "/" and self.ahead() == "(":
                under = self._under()
                parts += [sign for one in under for sign in ("/", one)]
                break
            if self.kind == "/" or (self.kind == "word" and self.tokens[self.at][1].lower() in ("per", "a", "an", "每")):
                if self.ahead() not in _NAMES or known_unit(self.tokens[self.at + 1][1].rstrip(".")) is None:
                    break
                self.take()
                parts.append("/")
            elif self.kind == "*" and (self.ahead() in ("word", "unit") or ("/" in parts and self._names_unit_next())):
                self.take()
                parts.append("*")
            elif self.kind in ("word", "unit") and known_unit(self.tokens[self.at][1].rstrip(".")):
                parts.append("*")
            else:
                break
        if not parts or parts[-1] in "/*":
            self.jump(start)
            return None
        return "".join(parts)

    def _names_unit_next(self) -> bool:
        return self.ahead() in _NAMES and known_unit(self.tokens[self.at + 1][1]) is not None

    def _under(self) -> list[str]:
        """Read the `/(kg K)` of a unit: what it is divided by; nothing, and nothing read, where that is no product of units."""
        start = self.at
        self.jump(start + 2)
        units: list[str] = []
        while self.kind in _NAMES and (unit := known_unit(self.tokens[self.at][1])):
            self.take()
            units.append(unit + self._power())
            if self.kind == "*" and self.ahead() in _NAMES:
                self.take()
        if self.kind == ")" and units and not any("^-" in one for one in units):
            self.take()
            return units
        self.jump(start)
        return []

    def _dimension(self) -> str:
        """Read `square` and `sq.`."""
        power = dimension(self.tokens[self.at][1].rstrip(".")) if self.kind in ("word", "unit") else None
        if power is None:
            return ""
        self.take()
        if self.kind == ".":
            self.take()
        return power

    def _squared(self) -> str:
        """Read `cm squared`."""
        power = _RAISED.get(self.tokens[self.at][1]) if self.kind == "word" else None
        if power is None:
            return ""
        self.take()
        return power

    def _power(self) -> str:
        """Read the exponent of a unit."""
        if self.kind != "^":
            return ""
        shape = [token[:2] for token in self.tokens[self.at + 1 : self.at + 5]]
        sign = ""
        if shape and shape[0][0] == "{":
            close = 3 if len(shape) > 1 and shape[1][0] == "-" else 2
            sign = "-" if close == 3 else ""
            if len(shape) > close and shape[close - 1][0] == "num" and shape[close][0] == "}":
                self.jump(self.at + close + 2)
                return f"^{sign}{shape[close - 1][1]}" if shape[close - 1][1] != "1" or sign else ""
        elif shape and shape[0][0] == "num":
            self.jump(self.at + 2)
            return f"^{shape[0][1]}" if shape[0][1] != "1" else ""
        elif len(shape) > 1 and shape[0][0] == "-" and shape[1][0] == "num":  # braces in \\mathrm leave no tokens
            self.jump(self.at + 3)
            return f"^-{shape[1][1]}"
        return ""

    def _unknown(self, many: bool) -> str | None:
        """Read up to four words that are no known unit: what was counted; `many` asks for a plural."""
        words: list[str] = []
        while self.kind in ("word", "unit") and len(words) < 5:
            words.append(self.take()[1])
        if len(words) == 5 or words[0].lower() in NOT_UNITS or not all(map(is_common, words)):
            return None
        if self.kind == "." and self.ahead() != "end":
            return None
        last = known_unit(words[-1])
        if last is None and many and not is_plural(words[-1]):
            return None
        return " ".join((*(word.lower() for word in words[:-1]), last or singular(words[-1])))


def _countable(node: Node) -> bool:
    """Tell the numbers after which a noun stands in the plural."""
    return type(node) is Number and node.value != 1 and node.value.denominator == 1


_DESCRIPTIONS = frozenset("long wide high tall deep away old apart total altogether".split())
