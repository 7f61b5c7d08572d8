"""Grammar of numbers: mixed and repeating numbers, numbers in a base, times of day."""

from __future__ import annotations

from typing import cast

from verigym.envs.latex.vocabulary import SCALES
from verigym.envs.math.build import div
from verigym.envs.math.numerals import MAX_DIGITS, literal, repeating
from verigym.envs.math.reading.tokens.cursor import Cursor, in_base
from verigym.envs.math.tree import Clock, Div, Node, Number, ParseError, TooLarge

HEX = frozenset("ABCDEF")
_MAX_BITS = (10**MAX_DIGITS).bit_length()
_AFTER_NUMBER = frozenset(("_", "sym", ":", "half", ".", "accent", "dots", "frac", "num", "scale", "word", "{"))


class Numbers(Cursor):
    """The part of the parser that reads numbers; the tokens that follow decide the kind of number."""

    def number(self) -> Node:
        """Read a number and the tokens that belong to it, and return its tree."""
        _, digits, _, _ = self.take()
        kind = self.kind
        if kind not in _AFTER_NUMBER:
            return literal(digits)
        spaced = self.tokens[self.at][2]
        if kind == "_":
            self.take()
            return in_base(self, digits, self.subscript())
        if kind == "sym" and not spaced and self.tokens[self.at][1] in HEX:
            return self._hexadecimal(digits) or literal(digits)
        if kind == ":" and not self.builder:
            return self._clock(digits) or literal(digits)
        if kind == "half":
            return self._half(digits)
        if kind == "." or kind == "accent":
            return self._repeating(digits) or literal(digits)
        if kind == "dots" and not spaced and "." in digits and len(digits) > 4 and self.ahead() not in ("num", "+", "-"):
            self.take()
            return _endless(digits)
        if kind == "frac" or (kind == "num" and spaced and self.ahead() == "/" and self.ahead(2) == "num"):
            return self._mixed(digits)
        if kind == "{":
            return self._mixed_over(digits) or literal(digits)
        return self._spelled(digits)

    def _spelled(self, digits: str) -> Node:
        """Read `12 base 3` and `3 million`."""
        if self.kind == "word":
            if self.tokens[self.at][1] != "base" or self.ahead() != "num":
                return literal(digits)
            self.take()
            return in_base(self, digits, self.take()[1])
        node = literal(digits)
        while self.kind == "scale" and type(node) is Number:
            node = Number(node.value * SCALES[self.take()[1]])
            if node.value.numerator.bit_length() > _MAX_BITS:
                raise TooLarge(f"a number of more than {MAX_DIGITS} digits")
        return node

    def _mixed(self, digits: str) -> Node:
        r"""Read `7\frac34` and `7 3/4`: a whole number before a proper fraction of whole numbers."""
        start = self.at
        whole = literal(digits)
        if not digits.isdigit() or digits[0] == "0":
            return whole
        if self.kind == "frac":
            fraction = self.atom()
        else:
            top = literal(self.take()[1])
            self.take()
            fraction = div(top, literal(self.take()[1]))
        if type(fraction) is Div and type(fraction.top) is Number and type(fraction.bottom) is Number and type(whole) is Number:
            top_value, bottom_value = fraction.top.value, fraction.bottom.value
            plain = (
                fraction.top.style == fraction.bottom.style == "plain" and not fraction.top.decimals + fraction.bottom.decimals
            )
            if plain and top_value and bottom_value and self.kind != "^":  # 1\frac95 is no product either
                return Number(whole.value + top_value / bottom_value, style="mixed")
        if type(fraction) is Div and self.tokens[start][0] == "frac":
            self._unread(start, fraction)
            return whole
        self.jump(start)
        return whole

    def _mixed_over(self, digits: str) -> Node | None:
        r"""Read `137 {1\over 2}`."""
        kinds, texts, _, _ = zip(*self.tokens[self.at : self.at + 6], strict=True)
        if kinds[:5] != ("{", "num", "over", "num", "}") or kinds[5] == "^" or texts[2] != "over":
            return None
        if not (digits + texts[1] + texts[3]).isdigit() or digits[0] == "0":
            return None
        whole, top, bottom = (literal(text) for text in (digits, texts[1], texts[3]))
        if not (type(whole) is Number and type(top) is Number and type(bottom) is Number and 0 < top.value < bottom.value):
            return None
        self.jump(self.at + 5)
        return Number(whole.value + top.value / bottom.value, style="mixed")

    def _unread(self, start: int, node: Node) -> None:
        """Put a node that was read back as one token, so that no text is read twice."""
        place = self.at - 1
        self.tokens[place] = ("frac", "", self.tokens[start][2], self.tokens[start][3])
        self.nodes[place] = node
        self.jump(place)

    def _hexadecimal(self, digits: str) -> Node | None:
        """Read `2A_{16}`."""
        place = self.at
        while self.tokens[place][0] in ("num", "sym") and not self.tokens[place][2] and len(digits) < 100:
            text = self.tokens[place][1]
            if not text.isdigit() and not set(text) <= HEX:
                return None
            digits += text
            place += 1
        if self.tokens[place][0] != "_":
            return None
        before = self.at
        self.jump(place + 1)
        try:
            return in_base(self, digits, self.subscript())
        except ParseError:  # a product: 2F_n, 3C_1
            self.jump(before)
            return None

    def _clock(self, digits: str) -> Node | None:
        """Read `12:30`, `3:05:10 pm`; None where it is a ratio."""
        tokens, at = self.tokens, self.at
        parts = [digits]
        while tokens[at][0] == ":" and tokens[at + 1][0] == "num" and not tokens[at][2] and not tokens[at + 1][2]:
            parts.append(tokens[at + 1][1])
            at += 2
        if not 2 <= len(parts) <= 3 or len(digits) > 2 or not digits.isdigit() or int(digits) > 24:
            return None
        if digits == "24" and any(part.strip("0") for part in parts[1:]):
            return None
        if tokens[at][0] == ":" or any(len(part) != 2 or not part.isdigit() or part > "59" for part in parts[1:]):
            return None
        self.jump(at)
        second = int(parts[2]) if len(parts) == 3 else None
        half = cast("None", self.take()[1]) if self.kind == "half" and 0 < int(digits) <= 12 else None
        return Clock(int(parts[0]), int(parts[1]), second, half)

    def _half(self, digits: str) -> Node:
        half = self.take()[1]
        if not digits.isdigit() or len(digits) > 2 or not 0 < int(digits) <= 12:
            raise self.error("no time of day")
        return Clock(int(digits), 0, None, "am" if half == "am" else "pm")

    def _repeating(self, digits: str) -> Node | None:
        r"""Read `0.1\overline{6}` and `0.\dot{3}`, also with the point and the bar apart."""
        place = self.at
        if self.kind == ".":
            shape = self.tokens[place + 1 : place + 4]
            if (
                [token[0] for token in shape] == ["(", "num", ")"]
                and not any(token[2] for token in shape)
                and "." not in digits
            ):
                self.jump(place + 4)  # 0.(3)
                return repeating(f"{digits}.", shape[1][1]) if shape[1][1].isdigit() else None
            if "." in digits or self.ahead() != "accent" or self.tokens[place][2]:
                return None
            digits += "."
            place += 1
        accent = self.tokens[place]
        if "." not in digits or not digits.replace(".", "0", 1).isdigit() or accent[1] not in ("bar", "dot"):
            return None
        again, place = self._period(place)
        if accent[1] == "dot" and self.tokens[place][0] == "num" and not self.tokens[place][2]:  # 0.\dot{1}42\dot{8}
            middle = self.tokens[place][1]
            if self.tokens[place + 1][:2] == ("accent", "dot"):
                last, place = self._period(place + 1)
                again += middle + last
        elif accent[1] == "dot" and self.tokens[place][:2] == ("accent", "dot"):
            last, place = self._period(place)
            again += last
        if not again.isdigit():
            return None
        self.jump(place)
        return repeating(digits, again)

    def _period(self, place: int) -> tuple[str, int]:
        """Return the digits under an accent, and the place after them."""
        shape = [token[0] for token in self.tokens[place + 1 : place + 4]]
        if shape == ["{", "num", "}"]:
            return self.tokens[place + 2][1], place + 4
        if shape[:1] == ["num"]:
            return self.tokens[place + 1][1], place + 2
        return "", place

    def point(self) -> Node:
        r"""Read a repeating decimal that starts with its point, such as `.\overline{3}`, and return its tree."""
        self.take()
        if self.kind == "accent":
            self.at -= 1
            self.kind = "."
            number = self._repeating("0")
            if number is not None:
                return number
            self.take()
        raise self.error("a number after the point expected")


def _endless(digits: str) -> Node:
    """Return the number for digits that break off: `0.333...` repeats, `3.14159...` is as good as it is written."""
    if not digits[-1] == digits[-2] == digits[-3]:
        return literal(digits)
    once = digits.rstrip(digits[-1])
    return repeating(once or "0", digits[-1])
