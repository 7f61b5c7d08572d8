r"""Degrees, of angles with minutes and seconds and of temperatures: `90^\circ`, `30^\circ 15'`, `50^\circ\text{C}`."""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.build import bare
from verigym.envs.math.reading.tokens.cursor import Cursor
from verigym.envs.math.tree import Call, Node, Number, Quantity, Symbol

_AFTER_SCALE = frozenset(("end", ",", ".", "}", "and", "or", ")", "rel", ";", "quad", "row", "nothing"))


class Degrees(Cursor):
    """The part of the parser that reads the degree sign."""

    def degrees(self, node: Node) -> Node:
        r"""Read the degree sign after `node` and the tokens that belong to the sign, and return the tree.

        These may be minutes and seconds, a temperature scale, or the second function of the composition `f \circ g`.
        """
        composed = self.kind == "circ" and type(node) is Symbol and self.ahead() == "sym"
        self.take()
        if composed:  # f \circ g
            return Call("compose", (node, self.factor()))
        if type(node) is Quantity:
            raise self.error("two units")
        return self.finished(Quantity(bare(node), "degree"))

    def finished(self, degrees: Node) -> Node:
        r"""Read the minutes and seconds, or the letter of `50^\circ C`, after `degrees`, and return the tree."""
        if self.kind == "num" and type(degrees) is Quantity:
            return Quantity(self._exact(degrees.value), "degree")
        scale = self.tokens[self.at]
        if (
            type(degrees) is Quantity
            and scale[0] in ("sym", "word")
            and scale[1] in ("C", "F")
            and self.ahead() in _AFTER_SCALE
        ):
            self.take()
            return Quantity(degrees.value, "celsius" if scale[1] == "C" else "fahrenheit")
        return degrees

    def _exact(self, value: Node) -> Node:
        r"""Add the minutes and seconds of arc: `30^\circ 15' 36''`."""
        for wanted, parts in ((1, 60), (2, 3600)):
            digits = self.tokens[self.at][1]
            if type(value) is not Number or self.kind != "num" or not digits.isdigit() or len(digits) > 2 or int(digits) > 59:
                break
            count, place = self._primes()
            if count == wanted:
                value = Number(value.value + Fraction(int(digits), parts), style="mixed")
                self.jump(place)
        return value

    def _primes(self) -> tuple[int, int]:
        """Count the primes behind the number here; return where they end."""
        place, tokens = self.at + 1, self.tokens
        braced = False
        if tokens[place][0] == "^":
            place += 1
            braced = tokens[place][0] == "{"
            place += braced
        count = 0
        while tokens[place][0] == "'":
            count += len(tokens[place][1])
            place += 1
        if braced and tokens[place][0] != "}":
            return 0, place
        return count, place + braced
