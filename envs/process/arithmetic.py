"""Rule-based verifier of a solution's arithmetic: recomputes both sides of each equation in its steps, in exact fractions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from verigym.envs.latex.vocabulary import SCALES
from verigym.envs.math.equality.budget import TooMuch, Undecided, WorkBudget
from verigym.envs.math.equality.numbers.exactly import value
from verigym.envs.math.equality.values import approximation, compare_values
from verigym.envs.math.judging.quantities.conversions import kind_of
from verigym.envs.math.tree import (
    FUNCTIONS,
    Add,
    Call,
    Constant,
    Div,
    Mul,
    Neg,
    Node,
    Number,
    Percent,
    Quantity,
    Symbol,
    walk,
)
from verigym.envs.process.claims import chains
from verigym.envs.process.sides import Chain, Side, operates
from verigym.envs.process.tokens import Relation
from verigym.envs.process.values import (
    SCALE,
    Value,
    congruent,
    divides,
    in_degrees,
    in_unit,
    in_words,
    is_function,
    related,
    shown,
    slacks,
    tree,
    without_units,
)

WORK = 3_000_000
"""Units of work for one solution, about 0.5 s; see `math.equality.budget`."""
MAX_SIDES = 4000
"""Sides that are read of one solution."""
_READ = 300
"""Units that reading a side is charged with, and as many again a character."""
_BASE = re.compile(r"\bbase[- ](?:\$?\s?(?:\\boxed\{)?[0-9]|two|eight|twelve|sixteen)", re.IGNORECASE)
_UNIT = re.compile(r"\\text\{[^{}]*\}")
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_SIGNS = re.compile(r"[-+*/]+")
_DENIED = re.compile(
    r"contradict|impossible|inconsistent|absurd|no (?:real )?solution|(?:is|are|was) false"
    r"|(?:not|never) (?:true|possible|hold|equal)",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"[0-9]")


class TooMuchArithmetic(Exception):
    """The solution states more than is recomputed."""


class StepVerdict(NamedTuple):
    """What was found in a step."""

    claims: int
    """How many links of chains were recomputed."""
    wrong: str
    """The first that does not hold; empty where all do."""
    unjudged: int = 0
    """How many links state a number, but could not be judged."""


class _Read(NamedTuple):
    """A side as read."""

    side: Side
    values: tuple[Value, ...]
    """By its readings; empty where none has a value."""
    open: Node | None
    """The tree of a side with unknown letters."""
    name: str | None
    """The letter that it consists of."""
    function: bool = False
    """Whether it is the value of a function that the solution names: `f(2)`, `P(A)`."""

    @property
    def computes(self) -> bool:
        return any(operates(text) for text in self.side.texts)

    @property
    def tree(self) -> Node | None:
        """Its value without units, where it could be read."""
        return self.open if self.open is not None else without_units(self.values[0].node) if self.values else None

    @property
    def counts(self) -> bool:
        """Whether numbers stand there."""
        return any(_DIGITS.search(text) for text in self.side.texts)

    @property
    def lettered(self) -> bool:
        """Whether letters stand there that are no unit."""
        return self.open is not None or any(_LETTER.search(_UNIT.sub("", text)) for text in self.side.texts)


class _Equation(NamedTuple):
    """A link with unknown letters, to be judged when the solution has said what they are."""

    step: int
    left: Node
    right: Node
    relation: Relation
    text: str
    calculation: bool
    """Whether one side is a calculation of plain numbers: `12 + 5 = 18x`."""

    def names(self) -> frozenset[str]:
        return frozenset(part.name for side in (self.left, self.right) for part in walk(side) if isinstance(part, Symbol))


class Verifier:
    """Checks the arithmetic of a solution step by step, and remembers the values of its variables."""

    def __init__(self) -> None:
        """Begin with no letters."""
        self._known: dict[str, Fraction] = {}
        self._slack: dict[str, Fraction] = {}
        self._stated: dict[str, set[Fraction]] = {}
        self._work = WorkBudget(WORK)
        self._sides = 0
        self._verdicts: list[StepVerdict] = []
        self._equations: list[_Equation] = []
        self._unread: set[str] = set()
        self._sought: set[str] = set()  # letters of equations: not names for what was computed
        self._claims, self._wrong, self._missed = 0, "", 0
        self._modulus: int | None = None
        self._denied = False  # whether the step speaks of a contradiction
        self._modular = False
        self._bases = False  # whether numbers may be meant in another base than ten

    def step(self, text: str) -> None:
        """Judge `text` as the next step.

        Raises:
            TooMuchArithmetic: the budget of this solution is used up.
        """
        self._claims, self._wrong, self._missed = 0, "", 0
        self._denied = _DENIED.search(text) is not None
        self._modular = self._modular or "mod" in text
        self._bases = self._bases or _BASE.search(text) is not None
        for chain in chains(text):
            self._modulus = chain.modulus
            self._chain(chain)
        self._verdicts.append(StepVerdict(self._claims, self._wrong, self._missed))

    def verdicts(self) -> list[StepVerdict]:
        """Return the verdicts of all steps. Variables in equations have the values that the solution finds for them."""
        verdicts = list(self._verdicts)
        uses = Counter(name for equation in self._equations for name in equation.names())
        uses.update(self._stated.keys())
        for equation in self._equations:
            verdict = verdicts[equation.step]
            names = equation.names()
            # What is sought is named again, in another equation or where it is found.
            sought = not equation.calculation and all(uses[name] > 1 for name in names) and not names <= self._stated.keys()
            if self._holds_in_the_end(equation):
                verdicts[equation.step] = verdict._replace(claims=verdict.claims + 1)
            elif not sought and self._new(equation.text):
                verdicts[equation.step] = verdict._replace(unjudged=verdict.unjudged + 1)
        return verdicts

    def _chain(self, chain: Chain) -> None:
        read = [self._read(side) for side in chain.sides]
        numbers = read[0].counts or read[0].side.beside
        named = not read[0].values and (read[0].name is not None or not numbers or read[0].function)
        last: _Read | None = None
        computed = chain.modulus is not None
        for number, one in enumerate(read):
            before = read[number - 1] if number else None
            if one.values and one.side.whole:
                computed = computed or one.computes
                if last is not None and (computed or before is not last):
                    self._link(last, one)
                elif last is not None and not _SIGNS.fullmatch("".join(read[0].side.texts)):  # sum += 5 = 17
                    self._bare(last, one)
                elif before is not None and last is None and not named and not before.function:
                    self._unlinked(before, one)
                last = one
            elif before is not None and one.name is None and not one.function:
                self._unlinked(before, one, formula=named)
        if read[0].name is not None and last is not None and all(one.side.relation in ("=", "approx") for one in read[1:]):
            self._define(read[0].name, last.values[0])

    def _link(self, left: _Read, right: _Read) -> None:
        """Judge two sides that both have a value."""
        holds = self._compare(left, right)
        if holds is None:
            self._miss(left, right)
            return
        self._claims += 1
        if not holds and not self._wrong:
            one, other = left.values[0], right.values[0]
            sign = right.side.relation
            contradiction = (
                f"not {other.text}" if sign in ("=", "approx", "says", "equiv") else f"so {sign} {other.text} is false"
            )
            found = "" if one.text == shown(one) else f"{shown(one)}, "  # `12 = 13` needs no computing
            self._wrong = f"{in_words(one.text)} is {found}{in_words(contradiction)}"

    def _bare(self, left: _Read, right: _Read) -> None:
        """Judge two numbers without a calculation: equal ones claim nothing, `12 = 13` is wrong."""
        if right.side.relation not in ("=", "approx", "equiv") or self._compare(left, right):
            return
        if left.lettered or right.lettered or left.side.named:
            return  # 9m = 27, total + 5 = 17: an equation with an unknown
        if left.side.listed and not right.side.whole:
            return
        units = [frozenset(_UNIT.findall("".join(one.side.texts[:1]))) for one in (left, right)]
        if left.side.loose and not left.side.beside and units[0] != units[1]:
            kinds = {kind_of(unit) for unit in _units(left) | _units(right)}
            if all(units) and _units(left) and _units(right) and len(kinds) == 1 and not self._in_units(left, right):
                self._miss(left, right)  # 1 hour = 70 minutes
            return  # 5 feet = 60 inches, page 3 = 4 lines
        parts = [any(one.counted for one in read.values) for read in (left, right)]  # $4400 is equal to 40% (of another)
        doubtful = (
            parts[0] != parts[1]
            or not right.side.ends
            or left.side.beside
            or left.side.led
            or left.side.loose
            or units[0] != units[1]
        )
        if doubtful or self._compare(left, right) is None or self._denied:
            self._miss(left, right)
        else:
            self._link(left, right)

    def _unlinked(self, left: _Read, right: _Read, *, formula: bool = False) -> None:
        """Take a link that has a side without a value: an equation with unknown letters, or something that cannot be read."""
        if not right.side.texts and left.values and left.computes:
            return self._miss(left, right)  # `12 + 5 =` before a blank line or words: what it is said to be was not read
        if not (left.counts and right.counts) and not (left.open is not None and right.open is not None and left.computes):
            return self._unread_numbers(left, right)
        if left.open is not None and right.open is not None and right.side.relation == "=":
            share = self._work.share(20_000)
            same = compare_values(left.open, right.open, "process", share).verdict == "same"
            self._work.settle(share)
            self._spend(0)
            if same:
                self._claims += 1
                return
        if formula:
            return  # A = b h / 2 = 3 * 4 / 2: what stands for the name is said with numbers next
        one, other = left.tree, right.tree
        if one is not None and other is not None and left.side.whole and right.side.whole:
            if right.side.relation in ("=", "approx"):
                text = f"{left.side.texts[0]}={right.side.texts[0]}"
                calculation = any(side.values and side.computes for side in (left, right))
                equation = _Equation(len(self._verdicts), one, other, right.side.relation, text, calculation)
                self._sought |= equation.names()
                self._equations.append(equation)
            return
        if left.computes or right.computes:
            self._miss(left, right)
        else:
            self._unread_numbers(left, right)

    def _unread_numbers(self, left: _Read, right: _Read) -> None:
        """Count a link between numbers that were not read. Words, names and formulas without numbers state no number."""
        if right.side.relation not in ("=", "approx", "equiv") or left.lettered or right.lettered:
            return
        if left.side.listed and not right.side.whole:
            return  # (2, 0) = (2, 0)
        if (left.counts or left.side.beside) and (right.counts or right.side.beside):
            self._miss(left, right)

    def _miss(self, left: _Read, right: _Read) -> None:
        self._missed += self._new("=".join((*left.side.texts[:1], *right.side.texts[:1])))

    def _new(self, text: str) -> bool:
        """Return whether this has not been counted before: who says it again claims nothing more."""
        if text in self._unread:
            return False
        self._unread.add(text)
        return True

    def _define(self, name: str, reading: Value) -> None:
        """Record the value of a letter; one with two values, such as the roots of an equation, stands for neither."""
        self._stated.setdefault(name, set()).add(reading.number)
        self._known[name] = reading.number
        self._slack[name] = reading.slack

    def _holds_in_the_end(self, equation: _Equation) -> bool:
        """Whether the solution has said what the letters are, and the equation holds for that; for each root of one letter."""
        names = equation.names()
        if not names <= self._stated.keys() or any(len(self._stated[name]) > 1 for name in names - {min(names, default="")}):
            return False
        if not names:
            return False
        first = min(names)
        if len(names) > 1 and len(self._stated[first]) > 1:
            return False
        return all(self._satisfied(equation, {**self._known, first: root}) for root in self._stated[first])

    def _satisfied(self, equation: _Equation, scope: dict[str, Fraction]) -> bool:
        one, other = (self._rational(side, scope) for side in equation[1:3])
        if one is None or other is None:
            return False
        slack = max((self._slack[name] for name in scope), default=Fraction(0))
        if one == other:
            return True
        if not slack and equation.relation != "approx":
            return False
        near = [{name: number + sign * self._slack[name] for name, number in scope.items()} for sign in (-1, 1)]
        ends = [self._rational(side, moved) for side in equation[1:3] for moved in near]
        if any(end is None for end in ends):
            return False
        spread = sum((abs(end - middle) for end, middle in zip(ends, (one, one, other, other), strict=True) if end is not None))
        return abs(one - other) <= spread

    def _read(self, side: Side) -> _Read:
        self._sides += 1
        if self._sides > MAX_SIDES:
            raise TooMuchArithmetic(f"more than {MAX_SIDES} sides of equations")
        values: list[Value] = []
        unknown: Node | None = None
        name: str | None = None
        for text in side.texts:
            self._spend(_READ * (1 + len(text)))
            node = tree(text)
            if node is None:
                continue
            bare = without_units(node)
            if isinstance(bare, Symbol | Constant):
                name = bare.name
            if is_function(bare):
                return _Read(side, (), None, None, function=True)
            symbols = {part.name for part in walk(bare) if isinstance(part, Symbol)}
            if symbols and (symbols & self._sought or any(len(self._stated.get(one, ())) != 1 for one in symbols)):
                unknown = unknown or bare
                continue
            reading = self._value(text, bare, node)
            if reading is not None:
                values += [reading, *self._also(reading, bare)]
            else:
                unknown = unknown or bare
        if name is not None:
            return _Read(side, (), None, name)
        return _Read(side, tuple(values), unknown, None)

    def _also(self, reading: Value, bare: Node) -> Iterator[Value]:
        """Yield other readings: `20%` and `3 million` as so many percent and millions, `5 - 20%` as a fifth less than 5."""
        literal = bare.of if isinstance(bare, Neg) else bare
        if isinstance(literal, Percent) and isinstance(literal.of, Number) and literal.of.value >= 1:
            yield reading._replace(
                number=reading.number * 100, slack=reading.slack * 100, near=reading.near * 100, counted=True
            )
        scale = SCALE.search(reading.text)
        if scale and not operates(reading.text.replace(scale[0], "")):
            times = 12 if scale[0] == "*12" else SCALES[scale[0].strip()]
            yield reading._replace(number=reading.number / times, slack=reading.slack / times, near=reading.near / times)
        if isinstance(bare, Add):
            *terms, last = bare.terms
            change = last.of if isinstance(last, Neg) else last
            if isinstance(change, Percent) and not any(isinstance(part, Percent) for term in terms for part in walk(term)):
                whole = self._rational(Add(tuple(terms)) if len(terms) > 1 else terms[0], self._known)
                part = self._rational(change, self._known)
                if whole is not None and part is not None:
                    number = whole * (1 - part if isinstance(last, Neg) else 1 + part)
                    yield reading._replace(number=number)

    def _spend(self, units: int) -> None:
        try:
            self._work.spend(units)
        except TooMuch:
            raise TooMuchArithmetic("more arithmetic than is recomputed") from None

    def _rational(self, node: Node, scope: dict[str, Fraction]) -> Fraction | None:
        share = self._work.share(100_000)
        try:
            return Fraction(value(node, scope, share))
        except (Undecided, RecursionError):
            return None
        finally:
            self._work.settle(share)
            self._spend(0)

    def _value(self, text: str, bare: Node, node: Node) -> Value | None:
        number = self._rational(bare, self._known)
        exact = number is not None
        if number is None and not any(isinstance(part, Symbol) for part in walk(bare)):
            known = all(part.name in FUNCTIONS for part in walk(bare) if isinstance(part, Call))
            angles = any(isinstance(part, Call) for part in walk(bare))
            number = approximation(in_degrees(node) if angles else bare, 30, self._work) if known else None
            self._spend(0)
        return None if number is None else Value(number, exact, *slacks(bare, text), text, node)

    def _compare(self, left: _Read, right: _Read) -> bool | None:
        """Return whether a link holds; None where no one can tell."""
        relation = right.side.relation
        if self._modulus is not None and relation in ("=", "equiv"):
            return congruent(left.values[0], right.values[0], self._modulus)
        if right.side.remainder is not None:
            return divides(left.values[0].node, *right.side.remainder)
        pairs = [(one, other) for one in left.values for other in right.values]
        if any(related(one, other, relation) for one, other in pairs):
            return True
        if self._bases or (relation == "equiv" and self._modular):
            return None
        if relation not in ("=", "approx", "says", "equiv"):
            return None if _units(left) != _units(right) else False
        if any((one.counted or other.counted) and one.number == other.number for one, other in pairs):
            return None  # 3 / 2 = 1.5%, or 60% / 2 = 30%
        if left.open is not None or right.open is not None or left.side.loose or right.side.loose:
            return None
        return self._in_units(left, right)

    def _in_units(self, left: _Read, right: _Read) -> bool | None:
        """Judge a link that does not hold by its numbers: `2 hours + 30 minutes = 150 minutes`."""
        units = _units(left) | _units(right)
        if len(units) + ("cent" in units and (not _units(left) or not _units(right))) < 2:
            return False
        for unit in sorted(units):
            sides = [without_units(in_unit(one.values[0].node, unit)) for one in (left, right)]
            one, other = (self._rational(side, self._known) for side in sides)
            if one is not None and other is not None and abs(one - other) <= right.values[0].slack:
                return True
        if len({kind_of(unit) for unit in units}) == 1:
            return False
        product = any(isinstance(part, Mul | Div) for one in (left, right) for part in walk(one.values[0].node))
        return False if product else None


def _units(read: _Read) -> frozenset[str]:
    return frozenset(part.unit for one in read.values[:1] for part in walk(one.node) if isinstance(part, Quantity))


def verify(steps: Sequence[str]) -> list[StepVerdict]:
    """Return the verdict on each step of a solution, in order.

    Raises:
        TooMuchArithmetic: the solution needs more recomputation than the verifier allows.
    """
    verifier = Verifier()
    for step in steps:
        verifier.step(step)
    return verifier.verdicts()


def first_error(steps: Sequence[str]) -> int | None:
    """Return the index of the first step with wrong arithmetic, counted from 0, or None if no such step is found."""
    return next((number for number, verdict in enumerate(verify(steps)) if verdict.wrong), None)
