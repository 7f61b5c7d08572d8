"""Points at which two expressions with variables are compared, drawn by a hash of both expressions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction

from verigym.envs.math.equality.budget import TooMuch
from verigym.envs.math.tree import Call, Constant, Neg, Node, Number, Pow, Symbol, children, symbols, walk

WANTED = 9
"""Points at which both sides are defined and compared."""
NEEDED = 4
"""With fewer, nothing is concluded."""
DRAWN = 40
"""Number of points to try."""
COUNTING_NAMES = frozenset("n k m j i N".split())
"""Names that stand for integers under two conditions: they occur in the gold, and the gold or the answer uses them as
integers."""

_RANGES = ((0.25, 3), (-3, 3), (100, 3000), (0.02, 1), (-1, 1), (-60_000, -2000), (1, 12), (-12, 12))
"""Near and far to both sides, so that |x - 100| is not 100 - x; half of them positive, for roots and logarithms."""
_STEPS = (1, 5, 3, 8, 6, 11)
"""Integer variables run through residues modulo 13 with different steps, so that n > k, n < k and all parities occur."""
_NEAR = Fraction(1, 1 << 60)
_JUMPS = tuple(
    [Fraction(half, 2) for half in range(-9, 18)]
    + [whole + near for whole in (0, 1, 2, 3, 10, -1, -2) for near in (_NEAR, -_NEAR)]
    + [Fraction(sign * base**power) for power in range(2, 11) for base in (2, 3, 10) for sign in (1, -1)]
    + [Fraction(2**power + 1) / 3 for power in range(1, 12)]
)
"""Where steps of real numbers are: integers and halves, just beside them, and powers."""
_LARGE = tuple(sorted({base**power + near for base in (2, 3, 5, 10) for power in range(5, 16) for near in (-1, 0, 1)}))
STEP_POINTS = 260
"""Points tried where steps occur."""
MAX_FAR_BITS = 2000
"""Maximum size in bits of all constants together. If they are larger, `far_points` raises `TooMuch`."""


def fingerprint(a: Node, b: Node, seed: str) -> str:
    """Return a seed that depends on both complete trees, so that no answer can be built to agree at its own test points."""
    digests = sorted(_digest(node) for node in (a, b))
    return hashlib.sha256(f"{seed}/{digests[0]}/{digests[1]}".encode("utf-8", "replace")).hexdigest()


def _digest(node: Node) -> str:
    total = hashlib.sha256()
    for part in walk(node):
        if isinstance(part, Number):
            leaf = f"{part.value.numerator:x}/{part.value.denominator:x}"
        else:
            leaf = repr(getattr(part, "name", ""))
        total.update(f"{type(part).__name__}({len(children(part))}){leaf};".encode("utf-8", "replace"))
    return total.hexdigest()


def _integer(text: str, span: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big") % span


def real_points(names: list[str], whole: frozenset[str], seed: str) -> Iterator[dict[str, Fraction]]:
    """Yield points for the variables `names`, drawn by `seed`.

    Variables in `whole` get positive integers. Most are below 14; in each eight points, one has integers up to 60, and one up
    to 1,400.
    """
    for index in range(DRAWN):
        low, high = _RANGES[index % len(_RANGES)]
        point = {}
        for place, name in enumerate(names):
            text = f"{seed}/{index}/{name}"
            if name not in whole:
                span = int((high - low) * 4096)
                point[name] = Fraction(int(low * 4096) * 16 + 1 + 2 * _integer(text, span * 8), 65536)
            elif index % 4 == 3:
                point[name] = Fraction(1 + _integer(text, 1400 if index % 8 == 3 else 60))
            else:
                step = _STEPS[place % len(_STEPS)] * index
                point[name] = Fraction(1 + (_integer(f"{seed}/{name}", 13) + step) % 13)
        yield point


def step_points(names: list[str], whole: frozenset[str], seed: str) -> Iterator[dict[str, Fraction]]:
    """Yield the points at which step functions are compared.

    A single integer variable takes all small integers, and a single real variable takes all places at which step functions
    usually jump; these points do not depend on `seed`. Several variables take combinations of such values. Further points are
    drawn by `seed`.

    Args:
        names: the names of all variables.
        whole: the names of the variables that are integers.
        seed: seed of the drawn points.
    """
    for index in range(STEP_POINTS):
        point, rest = {}, index
        for name in names:
            drawn = _integer(f"{seed}/steps/{index}/{name}", 1 << 60)
            if name in whole:
                point[name] = Fraction(_counts(index, rest, len(names), drawn))
            elif index >= len(_JUMPS) and index % 2:
                point[name] = Fraction(drawn % (1 << 24) - (1 << 23), 1 << (8 + drawn % 9))
            else:
                point[name] = _JUMPS[(index if len(names) == 1 else drawn) % len(_JUMPS)]
            rest //= 14
        yield point


def far_points(names: list[str], whole: frozenset[str], a: Node, b: Node) -> Iterator[dict[str, Fraction]]:
    """Yield points whose coordinates exceed all constants of the trees `a` and `b`.

    At such points |x - 10^30| differs from 10^30 - x, although the two agree at all small x.

    Raises:
        TooMuch: the constants have more than 2,000 bits.
    """
    span = weight(a) + weight(b)
    if span > MAX_FAR_BITS:
        raise TooMuch("constants of more than 2,000 bits")
    for power, signs in ((span + 40, (1, 1)), (span + 40, (-1, -1)), (span // 2 + 20, (1, -1)), (span + 40, (-1, 1))):
        point = {}
        for place, name in enumerate(names):
            size = (1 << power) + place
            point[name] = Fraction(size) if name in whole else signs[place % 2] * (size + Fraction(1, 3))
        yield point


def weight(node: Node) -> int:
    """Return an estimate of the number of bits of the constants in the tree `node`."""
    match node:
        case Number(value):
            return value.numerator.bit_length() + value.denominator.bit_length()
        case Pow(base, Number(value)):
            return weight(base) * max(1, min(int(value), MAX_FAR_BITS)) + value.numerator.bit_length()
        case Call("factorial" | "doublefactorial" | "binom" | "perm" | "exp", args) if not any(map(symbols, args)):
            return MAX_FAR_BITS
    return min(sum(map(weight, children(node))), MAX_FAR_BITS + 1)


def _counts(index: int, rest: int, count: int, drawn: int) -> int:
    if count == 1:
        if index % 4 == 3:  # large ones between the small ones, for a budget that ends early
            large = index // 4
            return _LARGE[large * 2 % len(_LARGE)] if large % 2 else 1 + drawn % 2000
        return 1 + index - index // 4
    return 1 + (rest % 14 if index < 196 else drawn % 1000)


def integer_names(gold: Node, answer: Node) -> frozenset[str]:
    r"""Return the names of the variables that stand for integers.

    A variable stands for an integer if the gold can only mean an integer by it, for example in r!. What the answer means by it
    does not count, since otherwise `\lfloor r \rfloor + 0 r!` would equal `r`.

    Names in `COUNTING_NAMES` that occur in the gold are an exception. They stand for integers if the gold or the answer uses
    them in a factorial, a step function, a bound of a sum, an exponent of a negative number, or together with pi in a sine or
    similar function.
    """
    certain, possible = _uses(gold)
    counting = free_symbols(gold) & COUNTING_NAMES
    if counting:
        possible = possible.union(certain, *_uses(answer))
    return frozenset(certain | (counting & possible))


def _uses(node: Node) -> tuple[set[str], set[str]]:
    """Return the symbols that can only be integers where they stand, and those that may be."""
    certain: set[str] = set()
    possible: set[str] = set()
    for part in walk(node):
        match part:
            case Call("factorial" | "doublefactorial" | "binom" | "perm" | "gcd" | "lcm", args):
                certain.update(*map(symbols, args))
            case Call("sum" | "prod", (_, Symbol(), start, stop)):
                certain |= symbols(start) | symbols(stop)
            case Call("floor" | "ceil" | "mod", args):
                possible.update(*map(symbols, args))
            case Call("sin" | "cos" | "tan" | "cot" | "sec" | "csc" | "exp", (argument,)):
                if any(one == Constant("pi") for one in walk(argument)):
                    possible |= symbols(argument)
            case Pow(base, exponent) if _negative(base):
                certain |= symbols(exponent)
            case Pow(Constant("e" | "i"), exponent) if any(isinstance(one, Constant) for one in walk(exponent)):
                possible |= symbols(exponent)
    return certain, possible


def free_symbols(node: Node) -> frozenset[str]:
    """Return the symbols in `node` that no sum, product, integral or limit binds."""
    match node:
        case Symbol(name):
            return frozenset((name,))
        case Call("sum" | "prod" | "int" | "lim", (body, Symbol(index), *bounds)):
            inner = free_symbols(body) - {index}
            return inner.union(*map(free_symbols, bounds))
    parts = children(node)
    return frozenset().union(*map(free_symbols, parts)) if parts else frozenset()


def _negative(node: Node) -> bool:
    return isinstance(node, Neg) or (isinstance(node, Number) and node.value < 0)
