r"""Finds the claims of a step, which are chains such as `(3 + 4) * 2 = 7 * 2 = 14`, in one linear pass over its plain text.

A side of a chain is a run of numbers, letters, signs, brackets and LaTeX commands. Words between a number and the next operator
or equals sign are the number's unit (`12 red pens + 5 pens`); any other word ends the side. A side whose meaning may depend on
words around it (`the product of 3 + 4 = 12`) is kept and marked as not whole: its claim counts as one that cannot be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from verigym.envs.latex.units import known_unit
from verigym.envs.latex.vocabulary import NOT_UNITS, PERCENT, SCALES
from verigym.envs.process.plain import BULLET, PLUS, ROW, STAR, plain
from verigym.envs.process.sides import (
    AFTER,
    CONNECTIVES,
    LONG_UNIT,
    MAX_CHAIN,
    MAX_SIDE,
    MODULUS,
    SAYS,
    SIGN_WORDS,
    UNIT_WORDS,
    Chain,
    Place,
    Side,
    operates,
)
from verigym.envs.process.tokens import RELATIONS, Token, tokens


def chains(step: str) -> Iterator[Chain]:
    """Yield the chains of a step, in order."""
    read = tokens(plain(step))
    at = 0
    while at < len(read):
        reader = _Reader(read, at)
        reader.read()
        chain = reader.chain()
        if chain:
            yield chain
        at = max(reader.at, at + 1)


class _Reader(Place):
    """Reads one chain from a place on."""

    def read(self) -> None:
        """Take tokens until one ends the chain; `at` is then where the next may begin."""
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            take = getattr(self, f"_take_{token.kind}", self._take_other)
            if not take(token):
                return
            self.at += 1

    def chain(self) -> Chain | None:
        """Return what was read, where there is more than one side."""
        modulus = MODULUS.search("".join(self.parts)) if self.sides else None
        if modulus:
            while self.parts and "\\bmod" not in self.parts[-1]:
                self.parts.pop()
            self.parts.pop()
        self._close_side()
        return Chain(tuple(self.sides), int(modulus[1]) if modulus else None) if len(self.sides) > 1 else None

    def _take_number(self, token: Token) -> bool:
        if self.operand:
            follows = self.tokens[self.at + 1 : self.at + 2]
            mixed = bool(follows) and follows[0].text == "/" and self.parts[-1].isdigit()
            argument = not token.spaced and self.parts[-1] in ("}", "!")  # \frac{16}7
            if self._times():
                self.parts.append("\\cdot ")
                self.starts.append(len(self.parts))
            elif not (mixed or argument or token.text[0] in "\u00bc\u00bd\u00be") and not self._restart():
                self.ends_bound = token.text[:2] == "00"  # the rest of 1 002
                return False
            if mixed:
                self.parts.append(" ")
        if self.parts[-1:] == ["!"] and self.operand:
            self.parts.append("\\cdot ")  # 19!3!
        if self.parts[-1:] == ["^"] and len(self.parts) > 1 and self.parts[-2].startswith("\\"):
            return self._put(f"{{{token.text}}} ", operand=False)  # \cos^2 x
        if token.text[0] == "0" and token.text[1:2].isdigit():
            self.dots = True  # a time of day, or the rest of 350 000
        return self._put(token.text, operand=True)

    def _times(self) -> bool:
        """Return whether a fraction in brackets before a number may be a factor: `(1/2) 18 = 9`."""
        before = self.tokens[max(0, self.at - 2) : self.at]
        return not self.opened and [token.kind for token in before] == ["number", "close"] and "/" in self.parts[-4:-2]

    def _take_operand(self, token: Token) -> bool:
        return self._put(token.text, operand=True)

    def _take_ellipsis(self, token: Token) -> bool:
        self.broken = True  # 9 * 8 * ... * 1
        return self._put(token.text, operand=False)

    def _take_opener(self, token: Token) -> bool:
        if self.operand and token.spaced and not self.opened:
            self.starts.append(len(self.parts))
        return self._put(token.text, operand=False)

    def _take_root(self, token: Token) -> bool:
        return self._put(token.text, operand=False)

    def _take_symbol(self, token: Token) -> bool:
        if self.operand and token.spaced and not self.opened and not self._joins(self.at + 1):
            return self._words()
        if self.operand and known_unit(token.text):
            self.letters.append(len(self.parts))  # "2 h": two hours, or twice h
        return self._put(f" {token.text}" if self.operand else token.text, operand=True)

    def _joins(self, at: int) -> bool:
        """Return whether what stands there goes on with a formula."""
        if at >= len(self.tokens):
            return True
        kind = self.tokens[at].kind
        return kind in ("sign", "relation", "close", "script", "line", "arrow") or self.tokens[at].text in (",", ".", ";")

    def _take_open(self, token: Token) -> bool:
        if token.text == "(" and self.operand and token.spaced and self._note():
            return True
        if self.operand and token.spaced and not self.opened and token.text == "(":
            self.starts.append(len(self.parts))  # "3 (4 + 5) = 27", "in 2010 (4 + 5 = 9)"
        index = bool(self.parts) and self.parts[-1].startswith("\\sqrt")
        self.opened.append("(" if token.text == "[" and not index else token.text)
        named = self.at > 0 and self.tokens[self.at - 1].kind in ("opener", "word", "symbol")
        self.calls.append(named and (not token.spaced or self.tokens[self.at - 1].kind == "opener"))
        return self._put(self.opened[-1], operand=False)

    def _note(self) -> bool:
        """Go on behind words in brackets, where a sign or a relation follows them: `$240 (house and food) + $9 (phone)`."""
        at = self.at + 1
        while at < len(self.tokens) and at <= self.at + 2 * UNIT_WORDS and self.tokens[at].kind in ("word", "symbol"):
            at += 1
        words = self.tokens[self.at + 1 : at]
        if not any(len(word.text) > 1 for word in words) or [token.kind for token in self.tokens[at : at + 1]] != ["close"]:
            return False
        if [token.kind in ("sign", "relation") for token in self.tokens[at + 1 : at + 2]] != [True]:
            return False
        self.at, self.dots = at, True  # "1/2 (arc ABC)" may be a product
        return True

    def _take_close(self, token: Token) -> bool:
        if not self.opened and self.sides:
            return False
        opened = self.opened.pop() if self.opened else "("
        if self.calls:
            self.calls.pop()
        if token.text == "]":
            return self._put("]" if opened == "[" else ")", operand=opened != "[")
        return self._put(token.text, operand=True)

    def _take_sign(self, token: Token) -> bool:
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        if following is not None and following.kind == "word" and self.operand and following.text.lower() not in SIGN_WORDS:
            if token.text == "/":  # $10/hour
                self.at += 1
                return self._unit([following.text])
            if token.spaced and token.text in "-\u2212\u2013\u2014\u2015" and not _is_name(following.text):
                return self._end(token.text)  # a dash
        if token.text == "\u00b7" and self.operand and following is not None and following.kind in ("word", "line"):
            return self._end(token.text)  # between the items of a list
        if self.at and self.tokens[self.at - 1].kind == "line" and not self.sides:
            if self.operand:
                return self._join(token.text)
            self.led = True
        last = self.tokens[self.at - 1] if self.at else None
        if not self.parts and last is not None and last.kind in ("word", "symbol"):
            self.named = bool(self.sides) or token.text not in "-\u2212\u2013" or last.text.lower() not in CONNECTIVES
        if token.text in "\u2014\u2015" and self.operand:
            return self._join("-")
        if not self.parts and not self.sides and token.text not in ("-", "+", "\u2212", "\u2013"):
            self.before, self.bound = token.text, True
            return True
        return self._put(token.text, operand=False)

    def _join(self, sign: str) -> bool:
        """Take a sign that may instead be a bullet or a dash, after which something new begins."""
        self.parts.append(sign)
        self.joins += [len(self.parts) - 1, len(self.parts)]
        self.operand = False
        return True

    def _take_factorial(self, token: Token) -> bool:
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        if (
            following is None
            or following.kind in ("line", "word", "other")
            or (following.spaced and following.kind == "number")
        ):
            return self._end("!")
        return self._put("!", operand=True)

    def _take_percent(self, token: Token) -> bool:
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        modulo = token.spaced and following is not None and following.kind == "number"
        return self._put(" \\bmod " if modulo else "\\%", operand=not modulo)

    def _take_script(self, token: Token) -> bool:
        function = bool(self.parts) and self.parts[-1].startswith("\\") and not self.operand  # \log_2 8
        return self._put(token.text, operand=not function)

    def _take_relation(self, token: Token) -> bool:
        relation = RELATIONS.get(token.text)
        if relation is None:
            return self._end(token.text)
        if not self.parts and self.sides and relation == "=":
            return True  # an empty side: a line that begins with the sign that the last one ended with
        if len(self.sides) >= MAX_CHAIN:
            return False
        self._close_side()
        self.relation = relation
        return True

    def _take_arrow(self, token: Token) -> bool:
        return self._says(token.text)

    def _says(self, word: str) -> bool:
        """Take a word or an arrow as a relation between what is computed and a bare number, or else end the chain."""
        ahead = self.tokens[self.at + 1 : self.at + 4]
        while ahead and ahead[0].kind == "word" and ahead[0].text in ("about", "exactly", "approximately"):
            ahead = ahead[1:]
        if self.sides or not self.operand or not operates("".join(self.parts)) or not ahead or ahead[0].kind != "number":
            return self._end(word)
        if len(ahead) > 1 and ahead[1].kind in ("sign", "relation", "open", "script", "symbol", "operand", "opener", "arrow"):
            return self._end(word)
        self._close_side()
        self.relation = "approx" if self.tokens[self.at + 1].kind == "word" else "says"
        return True

    def _take_line(self, token: Token) -> bool:
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        goes_on = following is not None and following.kind == "relation"
        if self.parts and not self.sides and following is not None:
            if self.operand:
                goes_on = goes_on or following.kind == "sign" or following.text in (BULLET, PLUS, STAR)
            elif self.tokens[self.at - 1].kind == "sign" and len(self.parts) > 1:
                self.joins.append(len(self.parts))
                goes_on = True
        if self.parts and not (goes_on or (self.opened and not self.operand) or (not self.operand and self.sides)):
            return self._end("")
        return bool(self.parts or self.sides) or self._end("")

    def _take_word(self, token: Token) -> bool:
        low = token.text.lower()
        if low == "times" and self.operand and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "sign":
            return True  # 4 times * 20 meters
        if low in SIGN_WORDS and self.operand and self._operand_at(self.at + 1):
            return self._put(SIGN_WORDS[low], operand=False)
        if low == "rem" and self.operand and self.sides:
            return self._put(" rem ", operand=False)
        if low in PERCENT and self.operand:
            return self._put("\\%", operand=True)
        if low == "of" and self.operand and self._portion() and self._of():
            return self._put("\\times ", operand=False)
        if low in SAYS:
            return self._says(token.text)
        letters = self._letters(token)
        if letters:
            return self._put(letters, operand=True)
        if self.operand:
            if low in SCALES or low in ("dozen", "dozens"):
                return self._scale(low)
            return self._words()
        if self.parts and self.parts[-1] not in ("(", "{", "["):
            self.broken = True
        if self.sides and not self.parts:  # "= about 18", "= Tom's share": words before a side
            self.before, self.dropped = token.text, self.dropped or token.counts
            return True
        return self._end(token.text)

    def _letters(self, token: Token) -> str:
        """Return what a short word is as letters of a formula: `8xy`, `x^2 + xy`, `3 EF`; nothing where it is a word."""
        low = token.text.lower()
        if len(low) > 4 or not low.isalpha() or low == "rem" or known_unit(token.text) is not None:
            return ""
        if _is_name(token.text):
            return f" {token.text}" if self.operand else token.text
        if self.operand:
            return "" if token.spaced else " " + " ".join(token.text)
        after_sign = bool(self.parts) and self.parts[-1] not in ("(", "{", "[")
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        alone = following is None or following.kind != "word"
        if following is not None and token.text.islower() and low not in NOT_UNITS:
            after_sign = after_sign or following.text == "^" or (self.parts[-1:] == ["{"] and following.text == "}")
        formula = after_sign and alone and token.text.islower() and low not in NOT_UNITS and low not in SIGN_WORDS
        return " ".join(token.text) if formula else ""

    def _operand_at(self, at: int) -> bool:
        return at < len(self.tokens) and self.tokens[at].kind in ("number", "open", "operand", "opener", "root", "symbol")

    def _portion(self) -> bool:
        """Return whether the side ends with a share, of which there may be something: 20%, 1/2."""
        text = "".join(self.parts[-9:])
        return (
            text.endswith("\\%")
            or re.search(r"[0-9]\s?/\s?[0-9]+$|\\[dt]?frac\s*(?:\{[^{}]*\}\s*\{[^{}]*\}|[0-9]\s?[0-9])$", text) is not None
        )

    def _of(self) -> bool:
        """Go on to the number of which a share is taken, where there is one: `20% of the 50`."""
        at = self.at + 1
        while at < len(self.tokens) and self.tokens[at].text in ("the", "that", "his", "her", "their", "its", "those", "these"):
            at += 1
        if not self._operand_at(at):
            return False
        self.at = at - 1
        return True

    def _scale(self, word: str) -> bool:
        self.parts[-1] = f"({self.parts[-1]}*12)" if word.startswith("dozen") else f"{self.parts[-1]} {word}"
        return True

    def _words(self) -> bool:
        """Take words behind a number as its unit, where a sign, a relation or a bracket follows them."""
        words: list[str] = []
        at = self.at
        while at < len(self.tokens) and len(words) <= LONG_UNIT and self.tokens[at].kind in ("word", "symbol"):
            low = self.tokens[at].text.lower()
            if low in SAYS or low in SIGN_WORDS or (not words and low in NOT_UNITS) or low in AFTER or low == "rem":
                break
            words.append(self.tokens[at].text)
            at += 1
        if self.opened and [token.text for token in self.tokens[at : at + 2]] == [".", "}"]:
            at += 1  # an abbreviated unit in a fraction
        follows = self.tokens[at] if at < len(self.tokens) else None
        goes_on = follows is not None and (
            follows.kind in ("relation", "arrow")
            or (
                follows.kind == "sign"
                and at + 1 < len(self.tokens)
                and self.tokens[at + 1].kind in ("number", "open", "operand", "opener")
            )
            or (follows.kind == "close" and bool(self.opened))
            or (follows.kind == "word" and follows.text.lower() in (SIGN_WORDS.keys() | SAYS))
            or (follows.kind == "line" and at + 1 < len(self.tokens) and self.tokens[at + 1].kind == "relation")
        )
        long = len(words) > UNIT_WORDS and (follows is None or follows.kind != "sign" or not CONNECTIVES.isdisjoint(words))
        if not words or len(words) > LONG_UNIT or long:
            return self._end(self.tokens[self.at].text)
        if not goes_on:
            if self.sides:
                self._unit(words[:1])
            return self._end(words[0])
        self.at = at - 1
        return self._unit(words)

    def _unit(self, words: list[str]) -> bool:
        name = re.sub(r"[^A-Za-z /]", "", " ".join(words))
        if any(char.isdigit() for word in words for char in word) and known_unit(name) is None:
            self.dropped = True  # 12 plus5
        if name:
            self.parts.append(f"\\text{{ {name}}}")
        self.operand = True
        return True

    def _take_dots(self, token: Token) -> bool:
        self.dots = True
        return True

    def _take_other(self, token: Token) -> bool:
        if token.text == "." and self.opened and self.operand:
            return True  # of an abbreviated unit
        if token.text == "," and self.opened:
            if self.calls[-1] and self.operand and self._argument_at(self.at + 1) and not self.parts[-1].strip().isalpha():
                return self._put(",", operand=False)
            self.listed = True
        if token.text in (BULLET, PLUS, STAR):
            if self.parts and self.operand and not self.sides and self.tokens[self.at - 1].kind == "line":
                return self._join({PLUS: "+", STAR: "*"}.get(token.text, "-"))
            if self.parts or self.sides:
                return self._end("")
            self.bullet, self.bound, self.led = token.text == BULLET, False, True
            return True
        if token.text == ROW and self._cell():
            return True
        return self._end(token.text)

    def _cell(self) -> bool:
        """Take a cell's border between a computation and a bare number as a relation; return whether it is one."""
        ahead = self.tokens[self.at + 1 : self.at + 3]
        if self.sides or not operates("".join(self.parts)) or len(ahead) < 2:
            return False
        if ahead[0].kind != "number" or ahead[1].text != ROW:
            return False
        self._close_side()
        self.relation = "says"
        return True

    def _end(self, after: str) -> bool:
        """End the chain at this token. Without a relation, begin another after it."""
        if self.sides:
            self.ends_bound = self._binds(self.at) or (
                after == "," and "".join(self.parts).count("(") > "".join(self.parts).count(")")
            )
            return False
        dropped = self.dropped or self._numbers() or self.tokens[self.at].counts
        self.dropped = dropped and not self._parts_clauses(after)
        self.listed = self.listed and self.dropped
        self._clear()
        self.bullet = self.led = False
        self.before, self.bound, self.doubtful = after, self._bound(self.at + 1), self._doubtful(self.at + 1)
        return True

    def _parts_clauses(self, after: str) -> bool:
        """Return whether what stands here ends a clause: numbers before it are no part of what follows."""
        if after == ":":
            return not (self.at and self.tokens[self.at - 1].counts)  # a ratio
        return after in ("", ".", ";", "!", "?", "\u3002", ROW) or after.lower() in CONNECTIVES

    def _labelled(self) -> bool:
        return bool(self.before) and self.before[0].isalpha() and self.before.lower() not in CONNECTIVES

    def _close_side(self) -> None:
        first = not self.sides
        text = "".join(self.parts).strip()
        readings = [text]
        if self.letters:
            units = dict.fromkeys(self.letters)
            named = "".join(f"\\text{{{part}}}" if n in units else part for n, part in enumerate(self.parts)).strip()
            # Beside other units it is one, alone it may be one.
            readings = (
                [named]
                if "\\text" in text or any("\\text" in side.texts[0] for side in self.sides if side.texts)
                else [text, named]
            )
        if first:
            readings += ["".join(self.parts[start:]).strip() for start in self.starts[-2:]]
            readings += [joined for start in self.joins[-4:] if operates(joined := "".join(self.parts[start:]).strip())]
            if self.bullet and text[:1].isdigit():
                readings.append(f"-{text}")
        texts = tuple(trimmed for reading in readings if (trimmed := _trim(reading)))
        remainder = re.fullmatch(r"([0-9]{1,30}) rem ([0-9]{1,30})", text)
        if remainder:
            texts = (remainder[1],)
        bound = self.broken or (self.bound and first) or self.ends_bound
        whole = bool(texts) and len(text) <= MAX_SIDE and not bound
        label = first and (self.doubtful or (not operates(text) and ("\\text" in text or self._labelled())))
        rest = (int(remainder[1]), int(remainder[2])) if remainder else None
        self.sides.append(
            Side(
                self.relation,
                texts,
                whole,
                label or self.dots,
                rest,
                self._beside(first),
                self.listed,
                self.named,
                self._clause_ends(),
                first and self.led,
            )
        )
        self._clear()
        self.bound = self.dots = self.dropped = False


def _is_name(word: str) -> bool:
    """Return whether a word is the name of a length or a point: capitals such as `EF`."""
    return word.isalpha() and word.isupper() and 2 <= len(word) <= 4 and word.isascii() and known_unit(word) is None


def _trim(text: str) -> str | None:
    """Return the side without brackets that open or close outside it; None where it has some in its middle."""
    opened: list[int] = []
    loose: list[int] = []
    for place, char in enumerate(text):
        if char in "([{":
            opened.append(place)
        elif char in ")]}":
            if opened:
                opened.pop()
            else:
                loose.append(place)
    low, high = 0, len(text)
    stray = {*opened, *loose}
    while low < high and (low in stray or text[low].isspace()):
        stray.discard(low)
        low += 1
    while high > low and (high - 1 in stray or text[high - 1].isspace()):
        stray.discard(high - 1)
        high -= 1
    return text[low:high] if not stray else None
