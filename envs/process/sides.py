"""Sides and chains of a claim, and the cursor that reads one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from verigym.envs.process.plain import BULLET, PLUS, ROW, STAR
from verigym.envs.process.tokens import FUNCTIONS, Relation, Token

MODULUS = re.compile(r"\\bmod\s*([0-9]{1,30})\s*\Z")
MAX_SIDE = 400
"""Longer sides are not read."""
MAX_CHAIN = 100
"""Sides after which a chain is taken for ended."""
SAYS = frozenset("is are gives give makes make yields totals becomes leaves get gets equalling equaling".split())
SIGN_WORDS = {"plus": "+", "minus": "-", "times": "*", "mod": " \\bmod ", "modulo": " \\bmod "}
# Before a side: what is computed there goes on with it ("twice 3 + 4 = 10", "the product of 3 + 4", "3 added to 4 + 1").
BEFORE = frozenset("plus minus times twice double triple thrice half over base log sqrt rem mod modulo".split())
OF_WHAT = frozenset(
    "product average mean median difference quotient square cube root half third quarter fraction percent ratio power".split()
)
JOINED = frozenset("added subtracted taken divided multiplied raised".split())
COMMANDS = frozenset("\\therefore \\because \\item \\ldots \\dots \\cdots \\forall \\hline \\noindent".split())
AFTER = frozenset("plus minus times divided multiplied over mod modulo base".split())
# After these a bare number begins a claim; any other word before it names it (`Day 1 = 5 + 3`).
CONNECTIVES = frozenset(
    "so then thus hence therefore that because since now also finally total sum get have has is gives obtain says".split()
)
SAFE = frozenset(",.:;!?\"'\u2019\u201d\u201c\u3002\u3001|)]}") | {BULLET, PLUS, ROW, STAR}
SIGNS = r"[-+*/^%\u00d7\u00f7\u00b7\u2212\u2013-\u2015\u2217\u22c5!\u221a\u00b2\u00b3]"
OPERATION = re.compile(rf"{SIGNS}|\\[A-Za-z]|[0-9)][ ]?\(|\b(?:{'|'.join(sorted(FUNCTIONS))})(?![A-Za-z])")
BARE = re.compile(r"[-+\u2212\u2013(\s{]*+[0-9.]*+(?:[)\s}%\\]|\\text\{[^{}]*\}|(?<=[)\s}])[0-9.]++)*")
UNIT_WORDS = 4
LONG_UNIT = 8
"""Words of a unit before a sign: `52 cards in a full deck of cards * 3`."""


class Side(NamedTuple):
    """One side of a chain."""

    relation: Relation
    """The relation between the side before and this one; meaningless for the first side."""
    texts: tuple[str, ...]
    r"""The possible readings of the side, in the notation of the `math` grader, with units in `\text{}`. Empty if the side
    cannot be read."""
    whole: bool
    """Whether the text holds all of this side of the equation; false if words beside it may belong to it."""
    loose: bool = False
    """Whether a false relation at this side may mean something else, and so is no certain error. This is so if the first side
    is a number that may belong to a word beside it (`Day 1 = 5 + 3`, `5 feet = 60 inches`), if an operation in words comes
    before the side (`the average of 3 + 5 = 4`), or if dots follow a decimal."""
    remainder: tuple[int, int] | None = None
    """Quotient and remainder of a division: (3, 2) for `17 / 5 = 3 rem 2`. None if the side has no remainder."""
    beside: bool = False
    """Whether numbers stand beside it in its clause that it does not hold: `12, 5 = 18`, `12 & 5 = 18`."""
    listed: bool = False
    """Whether it is the last of several in brackets: the `0` of `(2, 0) = (2, 0)`."""
    named: bool = False
    """Whether it goes on from a word: the `+ 5` of `total + 5 = 17`."""
    ends: bool = True
    """Whether the clause ends behind it."""
    led: bool = False
    """Whether it begins a line with a sign, which may go on with the line above."""


class Chain(NamedTuple):
    """Chain of expressions that a solution step states to be equal or ordered, from left to right."""

    sides: tuple[Side, ...]
    modulus: int | None = None
    """Of a congruence: `17 = 2 mod 5`."""


def operates(text: str) -> bool:
    """Return whether `text` has a computation. A number with a sign, brackets, a unit or a percent sign is none."""
    return BARE.fullmatch(text) is None and OPERATION.search(text) is not None


class Place:
    """The state of reading a chain: the position, the sides read so far, the parts of the current side, and the text before."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self.tokens = tokens
        self.at = at
        self.sides: list[Side] = []
        self.relation: Relation = "="
        self.parts: list[str] = []
        self.starts: list[int] = []  # parts from which the side may begin too
        self.joins: list[int] = []  # parts after a line break or dash at which it may begin, if a computation stands there
        self.letters: list[int] = []  # parts that may be units
        self.opened: list[str] = []  # brackets that are open
        self.calls: list[bool] = []  # for each, whether it holds the arguments of a function
        # Whether numbers of this clause were left out.
        self.dropped = bool(at) and tokens[at].kind == "number" and tokens[at - 1].kind in ("number", "close", "operand")
        self.listed = self.named = False
        self.led = False
        self.operand = False  # whether the last part ends an operand
        self.broken = False
        self.bullet = False
        self.before, self.bound, self.doubtful = self._before(at), self._bound(at), self._doubtful(at)
        self.dots = False
        self.ends_bound = False

    def _before(self, at: int) -> str:
        """Return the word or character before a place; nothing where it is no part of a sentence."""
        return self.tokens[at - 1].text if at and self.tokens[at - 1].kind in ("word", "other", "close", "symbol") else ""

    def _bound(self, at: int) -> bool:
        """Return whether what stands before a place goes on there: an operation in words, or the rest of a number."""
        before = [token.text.lower() for token in self.tokens[max(0, at - 3) : at]]
        if before and at < len(self.tokens) and self.tokens[at - 1].kind == "number" and self.tokens[at].text[:2] == "00":
            return True  # the rest of 1 000
        if not before or self.tokens[at - 1].kind not in ("word", "other", "symbol"):
            return False
        word = before[-1]
        following = self.tokens[at] if at < len(self.tokens) else None
        if word in (",", ":") and following is not None and not following.spaced and following.kind == "number":
            return word == "," or (at > 1 and self.tokens[at - 2].kind == "number")  # the rest of 1,0000 and 18:90
        if word[0].isalpha():
            return word in BEFORE
        if word[0] == "\\":
            return word.strip() not in COMMANDS
        return word[0] not in SAFE and word[0] not in "([{"

    def _doubtful(self, at: int) -> bool:
        """Return whether words before a place may name an operation on what follows: `the average of`, `3 added to`."""
        before = [token.text.lower() for token in self.tokens[max(0, at - 3) : at]]
        if len(before) < 2:
            return False
        word, earlier = before[-1], before[-2]
        if word in ("of", "than"):
            return earlier in OF_WHAT or (word == "than" and before[0][:1].isdigit())
        return word in ("to", "by", "from", "with") and earlier in JOINED

    def _binds(self, at: int) -> bool:
        """Return whether what stands there goes on with the side before it: `2 more than 15`, `5 or 6`, `18 times as`."""
        words = self.tokens[at : at + 4]
        if not words or words[0].kind not in ("word", "other"):
            return False
        low = words[0].text.lower()
        numbers = any(token.kind in ("number", "opener", "symbol", "open") for token in words[1:])
        if low in ("more", "less", "fewer"):
            return numbers and any(token.text == "than" for token in words)
        if low in ("of", "or"):
            return len(words) > 1 and words[1].kind == "number"
        return low in AFTER and numbers

    def _argument_at(self, at: int) -> bool:
        """Return whether a number stands there, with or without a sign."""
        at += at < len(self.tokens) and self.tokens[at].text == "-"
        return at < len(self.tokens) and self.tokens[at].kind == "number"

    def _clause_ends(self) -> bool:
        """Return whether nothing stands here that may go on with a side."""
        if self.at >= len(self.tokens):
            return True
        token = self.tokens[self.at]
        if token.kind == "word":
            return token.text.lower() in CONNECTIVES or token.text.lower() in ("and", "or", "but", "which", "while")
        return token.kind in ("line", "relation", "close", "arrow", "other")

    def _beside(self, first: bool) -> bool:
        """Return whether numbers stand beside the current side that it does not hold; those before a name are no part of it."""
        if not first:
            return self.dropped or (not self.parts and self.at < len(self.tokens) and self.tokens[self.at].counts)
        last = self.tokens[self.at - 1] if self.at else None
        if self.parts or last is None:
            return self.dropped
        named = last.kind in ("word", "symbol") and not any(char.isdigit() for char in last.text)
        return last.counts or (self.dropped and not named)

    def _put(self, text: str, *, operand: bool) -> bool:
        self.parts.append(text)
        self.operand = operand
        return True

    def _clear(self) -> None:
        self.parts, self.starts, self.letters, self.opened, self.joins, self.calls = [], [], [], [], [], []
        self.operand, self.broken, self.named = False, False, False

    def _numbers(self) -> bool:
        """Return whether the parts of the current side hold a number."""
        return any(char.isdigit() for part in self.parts for char in part)

    def _restart(self) -> bool:
        """Begin again at this token, where no relation was read yet; otherwise the chain ends before it."""
        if self.sides:
            return False
        self.dropped = self.dropped or self._numbers()
        self._clear()
        self.bullet = False
        self.before, self.bound = self._before(self.at), self._bound(self.at)
        self.doubtful = self._doubtful(self.at)
        return True
