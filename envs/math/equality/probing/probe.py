"""Compares two expressions by value: computes both with many digits, at randomly drawn points if there are variables.

The precision is high enough for the numbers that occur, for example to tell 1 + 1/2004! from 1 + 1/2006!. A clear difference
counts at once, and so do equal values at a point with variables. In all other cases the values are computed again with a higher
precision: a difference that stays the same is real, and one that vanishes was a rounding error.

The verdict is "unknown" if neither happens, or if the comparison would need more than `numeric.MAX_PRECISION` bits or
`PROBE_WORK` units of work.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import islice
from typing import Literal

from verigym.envs.math.equality.budget import TooMuch, Undecided, Unsupported, WorkBudget
from verigym.envs.math.equality.conjugates import complex_names
from verigym.envs.math.equality.numbers import numeric
from verigym.envs.math.equality.numbers.evaluate import Evaluation
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.numbers.numeric import Arithmetic, Value, magnitude
from verigym.envs.math.equality.probing import folds, points, roots
from verigym.envs.math.equality.steps import STEPS, Steps
from verigym.envs.math.tree import Call, Constant, Node, Root, Verdict, walk

Point = Mapping[str, tuple[Fraction, Fraction]]

START_BITS = 192
"""Precision of the first look."""
PROBE_WORK = 300_000
"""Units of work for one comparison, about 40 ms."""
MAX_SYMBOLS = 26
MAX_HEAVY = 6
"""Number of drawn points that may be too costly to compute. After one more, no further points are drawn under the same
assumption about which variables are integers."""
_STEP_WORK = 10_000
"""Units for one of the many points at which step functions are compared."""
_SIGN_BITS = 96
"""Precision for the values of what is folded."""
_MAX_SHIFT = 20_000
"""Bits by which they may be larger or smaller than one."""
_SIGN_POINTS = 16
"""Drawn points at which they are looked at before the lines."""
MIN_STEP_POINTS = 40
"""With fewer of them compared, nothing is concluded."""


class Probe:
    """One numerical comparison of two trees.

    Args:
        a: the gold, or an expression derived from it. How the gold uses a variable decides whether the variable is an integer.
        b: the answer.
        seed: the seed of the points; see `points.fingerprint`.
        work: the budget that the cost is subtracted from.
        sides: the original gold and answer, if each of `a` and `b` combines parts of the gold with parts of the answer; else
            None.
    """

    def __init__(self, a: Node, b: Node, seed: str, work: WorkBudget, sides: tuple[Node, Node] | None = None) -> None:
        """Compare a with b within a budget."""
        self.a, self.b, self.seed, self.work = a, b, seed, work
        self.gold, self.answer = sides or (a, b)
        parts = [part for node in (a, b) for part in walk(node)]
        self.limited = False
        self.imaginary = Constant("i") in parts
        calls = {part.name for part in parts if isinstance(part, Call)}
        self.folds = "abs" in calls or any(isinstance(part, Root) for part in parts)
        self.steps = Steps(a, b) if not calls.isdisjoint(STEPS) else None

    def equal(self) -> Verdict:
        """Return whether the two trees have the same values wherever both are defined.

        Raise `TooMuch` if the budget is spent.
        """
        names = sorted(points.free_symbols(self.a) | points.free_symbols(self.b))
        if len(names) > MAX_SYMBOLS:
            raise TooMuch("more than 26 variables")
        if not names:
            return self._at({}, real=False)
        whole = points.integer_names(self.gold, self.answer).intersection(names)
        counting = whole | (points.free_symbols(self.gold) & points.COUNTING_NAMES).intersection(names)
        real = not self.imaginary
        for integers, only_real in dict.fromkeys(((whole, real), (counting, real), (whole, False))):
            verdict = self._everywhere(names, integers, only_real)
            if verdict == "same":
                return self._surely(names, integers, only_real)
            if verdict == "different":
                return verdict
        if self.limited:
            raise TooMuch("too large at too many points")
        return "unknown"

    def _everywhere(self, names: list[str], whole: frozenset[str], real: bool) -> Verdict:
        agreed = heavy = 0
        turned = complex_names(self.a, self.b).intersection(names)
        for index, drawn in enumerate(points.real_points(names, whole, self.seed)):
            point = {
                name: (number, Fraction((index * 7 + len(name)) % 11 - 5, 4) if name in turned and index % 2 else Fraction(0))
                for name, number in drawn.items()
            }
            verdict = self._shared(point, PROBE_WORK // 4, real and not turned)
            if verdict == "too much":
                self.limited, heavy = True, heavy + 1
                if heavy > MAX_HEAVY:
                    break
            elif verdict == "different":
                return "different"
            agreed += verdict == "same"
            if agreed >= points.WANTED:
                break
        return "same" if agreed >= points.NEEDED else "unknown"

    def _surely(self, names: list[str], whole: frozenset[str], real: bool) -> Verdict:
        """Tell whether what agrees at some points does so far away as well, and where steps are."""
        if self.folds or (self.steps is not None and self.steps.levelled):
            for drawn in points.far_points(names, whole, self.gold, self.answer):
                place = {name: (number, Fraction(0)) for name, number in drawn.items()}
                if self._shared(place, _STEP_WORK, real) == "different":
                    return "different"
        total, self.work = self.work, self.work.share(self.work.left // (3 if self.steps is not None else 1))
        try:
            folded = self._folded(names, whole, real)
        finally:
            total.settle(self.work)
            self.work = total
        if self.steps is None or folded != "same":
            return folded
        if self.steps.levelled or not self.steps.covered():
            compared = 0
            for drawn in points.step_points(names, whole, self.seed):
                if self.work.left < _STEP_WORK:
                    break
                verdict = self._shared({name: (number, Fraction(0)) for name, number in drawn.items()}, _STEP_WORK, real)
                if verdict == "different":
                    return "different"
                compared += verdict == "same"
            if self.steps.levelled and compared < MIN_STEP_POINTS:
                return "unknown"
        return "same" if self.steps.covered() else "unknown"

    def _folded(self, names: list[str], whole: frozenset[str], real: bool) -> Verdict:
        """Compare on both sides of where moduli, roots and logarithms fold."""
        folding = folds.Folds(self.gold, self.answer, whole)
        if not (folding.arguments or folding.differ) or complex_names(self.a, self.b).intersection(names):
            return "same"
        arguments = list(dict.fromkeys((*folding.single, *folding.arguments)))
        if len(arguments) > folds.MAX_ARGUMENTS and folding.differ:
            return "unknown"
        unseen = self._one_sided(folding.single, names, whole, real)
        if unseen == "different":
            return "different"
        for line in folds.lines(names, whole, self.seed):
            polys = {one: poly for one in arguments if (poly := roots.along(one, line.ways, self._constant, self.work))}
            try:
                places = roots.cells(roots.product([*polys.values()], self.work), self.work, whole=line.whole)
            except Unsupported:
                polys, places = {}, []
            rest, more = [one for one in arguments if one not in polys], list[Fraction]()
            if rest and not line.whole:

                def number(node: Node, place: Fraction, line: folds.Line = line) -> Fraction | None:
                    return self._number(node, line.at(place))

                marks, seen = folds.marks(rest, number)
                places += folds.between(marks)
                more = sorted(folds.GRID, key=abs) if folding.differ else more
                unseen = {one for one in unseen if len(seen.get(one, ())) < 2}
            verdict = self._at_places(line, places, real)
            if verdict != "same":
                return verdict if folding.differ or verdict == "different" else "same"
            if self._at_places(line, more, real) == "different":
                return "different"
            unseen = {one for one in unseen if one not in polys or not self._settled(one, line, places, len(names) == 1)}
        return "unknown" if unseen else "same"

    def _at_places(self, line: folds.Line, places: list[Fraction], real: bool) -> Verdict:
        """Tell whether the sides differ at some place on a line; "unknown" where the work ends before the places do."""
        for place in places:
            if self.work.left < _STEP_WORK:
                return "unknown"
            point = {name: (number, Fraction(0)) for name, number in line.at(place).items()}
            if self._shared(point, _STEP_WORK, real) == "different":
                return "different"
        return "same"

    def _constant(self, node: Node) -> Fraction | None:
        exact = rational(node, self.work)
        return self._number(node, {}) if exact is None else exact

    def _one_sided(
        self, single: list[Node], names: list[str], whole: frozenset[str], real: bool
    ) -> set[Node] | Literal["different"]:
        """Return those of the hidden factors that had one sign alone at points all around, where the sides were compared."""
        ways: dict[Node, set[bool]] = {one: set() for one in single}
        for drawn in islice(points.real_points(names, whole, self.seed), _SIGN_POINTS if single else 0):
            verdict = self._shared({name: (number, Fraction(0)) for name, number in drawn.items()}, _STEP_WORK, real)
            if verdict == "different":
                return "different"
            if verdict == "same":  # a sign counts only where the sides were compared
                for one, signs in ways.items():
                    value = self._number(one, drawn)
                    if value:
                        signs.add(value > 0)
        return {one for one, signs in ways.items() if len(signs) < 2}

    def _settled(self, one: Node, line: folds.Line, places: list[Fraction], only: bool) -> bool:
        """Tell whether the places on a line are all that matter of a rational function, or showed it with both signs."""
        if only:
            return True
        return len({value > 0 for place in places if (value := self._number(one, line.at(place)))}) > 1

    def _number(self, node: Node, point: Mapping[str, Fraction]) -> Fraction | None:
        """Return the value of a part at a point, None where it is not real or too large, or the work is done."""
        if self.work.left < _STEP_WORK:
            return None
        arithmetic = Arithmetic(_SIGN_BITS, self.work, real=True)
        scope = {name: arithmetic.rational(one.numerator, one.denominator) for name, one in point.items()}
        share, arithmetic.work = self.work, self.work.share(_STEP_WORK // 4)
        try:
            value = Evaluation(arithmetic, self.seed).value(node, scope)
        except Undecided:
            return None
        finally:
            share.settle(arithmetic.work)
        if len(value) == 2 or abs(value[2]) > _MAX_SHIFT:
            return None
        sign, mantissa, shift, _ = (int(part) for part in value)
        size = Fraction(mantissa << shift) if shift >= 0 else Fraction(mantissa, 1 << -shift)
        return -size if sign else size

    def _shared(self, point: Point, units: int, real: bool) -> Verdict | Literal["too much"]:
        """Compare at one point within a share of the work; "unknown" where a side is not defined."""
        total, self.work = self.work, self.work.share(units)
        verdict: Verdict | Literal["too much"] = "unknown"
        try:
            verdict = self._at(point, real=real)
        except TooMuch:
            verdict = "too much"
        except Undecided:
            pass
        finally:
            total.settle(self.work)
            self.work = total
            if self.steps is not None:
                self.steps.keep(verdict == "same")
        return verdict

    def _at(self, point: Point, *, real: bool) -> Verdict:
        """Compare at one point; `Undecided` where a side is not defined there."""
        precision = START_BITS
        first = self._difference(point, precision, real)
        if first.need > precision - 160:
            precision = first.need + START_BITS
            if precision > numeric.MAX_PRECISION:
                raise TooMuch("numbers that span more than 20,000 digits")
            first = self._difference(point, precision, real)
        for _ in range(3):
            if first.relative is not None and first.relative > -64 and first.lost < 64:
                return "different"
            if point and first.agrees and first.lost < 64:
                return "same"
            raised = precision * 2
            if raised > 2 * numeric.MAX_PRECISION:
                return "unknown"
            second = self._difference(point, raised, real)
            if second.relative is None or second.size < first.size - precision // 2 or (first.agrees and second.agrees):
                return "same"
            if abs(second.size - first.size) <= 1 and second.relative > numeric.SLACK - precision:
                return "different"
            first, precision = second, raised
        return "unknown"

    def _difference(self, point: Point, precision: int, real: bool) -> Difference:
        arithmetic = Arithmetic(precision, self.work, real=real)
        evaluation = Evaluation(arithmetic, self.seed, self.steps)
        scope: dict[str, Value] = {}
        for name, (along, across) in point.items():
            value = arithmetic.rational(along.numerator, along.denominator)
            if across:
                value = (value, arithmetic.rational(across.numerator, across.denominator))
            scope[name] = value
        one, need = evaluation.value(self.a, scope), arithmetic.need
        arithmetic.need = 0
        two = evaluation.value(self.b, scope)
        arithmetic.need = max(need, arithmetic.need)
        return Difference(arithmetic, one, two)


class Difference:
    """The difference of the two compared values at one point."""

    def __init__(self, arithmetic: Arithmetic, one: Value, two: Value) -> None:
        """Subtract."""
        self.need, self.lost = arithmetic.need, arithmetic.lost
        zero = arithmetic.lib.fzero
        apart = arithmetic.total([one, arithmetic.negative(two)])
        self.size = magnitude(apart)
        self.relative: int | None = None
        if apart != zero:
            self.relative = self.size - max(magnitude(value) for value in (one, two) if value != zero)
        self.agrees = self.relative is None or self.relative < 2 * numeric.SLACK - arithmetic.precision
