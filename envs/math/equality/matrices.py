"""Matrix arithmetic on trees, entry by entry; determinants and inverses of small matrices."""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.build import literal, rebuild
from verigym.envs.math.equality.budget import TooMuch, Undecided, Undefined, Unsupported, WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.tree import Add, Call, Div, Group, Matrix, Mul, Neg, Node, Number, Pow, Root, Symbol, walk

MATRIX_WORK = 300_000
"""Units of work for all entries and steps of one expression, about 30 ms."""
MAX_ORDER = 8
MAX_SYMBOLIC_ORDER = 4
"""Symbolic determinants and inverses are expanded up to this order."""
MAX_POWER = 64
MAX_NODES = 4000
_PER_NODE = 5
_ONE = Number(Fraction(1))
_TWO = Number(Fraction(2))

Rows = tuple[tuple[Node, ...], ...]


def evaluate_matrix(node: Node, work: WorkBudget | None = None) -> Matrix | None:
    """Return the matrix that the expression `node` denotes; None if it is not a matrix, is undefined or is too large.

    The cost is subtracted from the budget `work`, if given.
    """
    share = WorkBudget(MATRIX_WORK) if work is None else work.share(MATRIX_WORK)
    try:
        entries = _Entries(share).matrix(node)
    except (Undecided, RecursionError):
        return None
    finally:
        if work is not None:
            work.settle(share)
    return Matrix(entries) if entries is not None else None


def write_out(node: Node, work: WorkBudget) -> Node:
    """Return the tree `node` with determinants and norms of matrices written out as sums. Raise `Undecided` if that fails."""
    if not any(isinstance(part, Call) and part.name in ("det", "norm", "abs") and len(part.args) == 1 for part in walk(node)):
        return node
    share = work.share(MATRIX_WORK)
    try:
        return rebuild(node, _Entries(share).written)
    finally:
        work.settle(share)


class _Entries:
    """Computes entries within one budget."""

    def __init__(self, work: WorkBudget) -> None:
        self.work = work

    def written(self, part: Node) -> Node:
        match part:
            case Call("det" | "abs", (argument,)):
                rows = self.matrix(argument)
                return part if rows is None else self.determinant(rows)
            case Call("norm" | "abs", (Group(_, _, items),)):
                return Root(self.total([Pow(Call("abs", (item,)), _TWO) for item in items]))
            case Call("norm", (argument,)):
                rows = self.matrix(argument)
                if rows is None or (len(rows) > 1 and len(rows[0]) > 1):
                    return part
                return Root(self.total([Pow(Call("abs", (one,)), _TWO) for row in rows for one in row]))
        return part

    def matrix(self, node: Node) -> Rows | None:
        """Return the rows of an expression of matrices; None where it is a scalar."""
        self.work.spend(_PER_NODE)
        match node:
            case Matrix(rows):
                if len(rows) > MAX_ORDER or any(len(row) > MAX_ORDER for row in rows):
                    raise TooMuch("a matrix of more than 8 rows or columns")
                return rows
            case Neg(of):
                below = self.matrix(of)
                return None if below is None else self._scaled(below, Number(Fraction(-1)))
            case Add(terms):
                return self._sum([self.matrix(term) for term in terms])
            case Mul(factors):
                return self._product(factors)
            case Div(top, bottom):
                above = self.matrix(top)
                if above is None:
                    return None
                return tuple(tuple(self.settle(Div(one, bottom)) for one in row) for row in above)
            case Pow(base, exponent):
                below = self.matrix(base)
                return None if below is None else self._power(below, exponent)
        return None

    def _sum(self, parts: list[Rows | None]) -> Rows | None:
        matrices = [part for part in parts if part is not None]
        if not matrices:
            return None
        if len(matrices) != len(parts) or len({(len(one), len(one[0])) for one in matrices}) > 1:
            raise Undefined("a sum of matrices that do not fit")
        height, width = range(len(matrices[0])), range(len(matrices[0][0]))
        return tuple(tuple(self.total([one[row][column] for one in matrices]) for column in width) for row in height)

    def _product(self, factors: tuple[Node, ...]) -> Rows | None:
        result: Rows | None = None
        scalars: list[Node] = []
        for factor in factors:
            rows = self.matrix(factor)
            if rows is None:
                scalars.append(factor)
            else:
                result = rows if result is None else self._times(result, rows)
        if result is None or not scalars:
            return result
        return self._scaled(result, self.product(scalars))

    def _times(self, one: Rows, two: Rows) -> Rows:
        if len(one[0]) != len(two):
            raise Undefined("a product of matrices that do not fit")
        columns = list(zip(*two, strict=True))
        return tuple(
            tuple(self.total([self.product([a, b]) for a, b in zip(row, column, strict=True)]) for column in columns)
            for row in one
        )

    def _scaled(self, rows: Rows, factor: Node) -> Rows:
        return tuple(tuple(self.product([factor, one]) for one in row) for row in rows)

    def _power(self, rows: Rows, exponent: Node) -> Rows:
        if exponent == Symbol("T"):
            return tuple(zip(*rows, strict=True))
        times = rational(exponent, self.work)
        if times is None or times.denominator != 1 or abs(times) > MAX_POWER or len(rows) != len(rows[0]):
            raise Unsupported("a power of a matrix")
        if times < 0:
            rows = self._inverse(rows)
        order = range(len(rows))
        result: Rows = tuple(tuple(Number(Fraction(int(row == column))) for column in order) for row in order)
        for _ in range(abs(int(times))):
            result = self._times(result, rows)
        return result

    def determinant(self, rows: Rows) -> Node:
        """Return the determinant as a tree."""
        if any(len(row) != len(rows) for row in rows):
            raise Undefined("the determinant of a matrix that is not square")
        number = rational(Call("det", (Matrix(rows),)), self.work)
        if number is not None:
            return literal(number)
        self.work.spend(0)
        if len(rows) > MAX_SYMBOLIC_ORDER:
            raise TooMuch("a determinant in symbols of this order")
        if len(rows) == 1:
            return rows[0][0]
        terms = []
        for column, entry in enumerate(rows[0]):
            term = self.product([entry, self.determinant(_minor(rows, 0, column))])
            terms.append(self.settle(Neg(term)) if column % 2 else term)
        return self.total(terms)

    def _inverse(self, rows: Rows) -> Rows:
        below = self.determinant(rows)
        if rational(below, self.work) == 0:
            raise Undefined("the inverse of a singular matrix")
        if len(rows) == 1:
            return ((self.settle(Div(_ONE, below)),),)
        order = range(len(rows))
        entries = []
        for row in order:
            line = []
            for column in order:
                cofactor = self.determinant(_minor(rows, column, row))
                line.append(self.settle(Div(self.settle(Neg(cofactor)) if (row + column) % 2 else cofactor, below)))
            entries.append(tuple(line))
        return tuple(entries)

    def settle(self, node: Node) -> Node:
        """Return a literal for a rational constant, else the tree; raise if it grew too large."""
        number = rational(node, self.work)
        if number is not None:
            return literal(number)
        count = sum(1 for _ in walk(node))
        self.work.spend(count * _PER_NODE)
        if count > MAX_NODES:
            raise TooMuch("an entry of more than 4,000 nodes")
        return node

    def total(self, terms: list[Node]) -> Node:
        """Return a sum as a tree."""
        flat = [one for term in terms for one in (term.terms if isinstance(term, Add) else (term,))]
        return self.settle(Add(tuple(flat))) if len(flat) > 1 else flat[0]

    def product(self, factors: list[Node]) -> Node:
        """Return a product as a tree."""
        flat = [one for part in factors for one in (part.factors if isinstance(part, Mul) else (part,))]
        return self.settle(Mul(tuple(flat))) if len(flat) > 1 else flat[0]


def _minor(rows: Rows, row: int, column: int) -> Rows:
    return tuple(line[:column] + line[column + 1 :] for index, line in enumerate(rows) if index != row)
