"""Records which branches of step functions (such as floor or max) were taken at the points of a comparison.

Values at points may miss the difference between `x` and `x + max(0, x - 5000)`. So if only one of the two expressions has a
step function, equal values count only if the points reached more than one branch of it. For a floor, this means two different
values; for a maximum, each argument must be the greatest at some point.
"""

from __future__ import annotations

from verigym.envs.math.tree import Call, Node, symbols, walk

STEPS = frozenset("floor ceil sign mod max min gcd binom perm sum prod".split())
"""Functions that may have an effect at a few points only. For instance, a sum has an effect only where a bound is large enough
for it to have terms."""
LEVELLED = frozenset("floor ceil sign mod max min gcd".split())
"""Step functions that jump. If one occurs, the points include integers, halves and numbers close to them."""
MAX_STEPS = 50
"""With more of them, what both sides have is not sought."""


class Steps:
    """Record of the step functions (such as floor or max) that only one of two trees has, and of the branches seen for each."""

    def __init__(self, a: Node, b: Node) -> None:
        """Find them."""
        sides = [[part for part in walk(node) if isinstance(part, Call) and part.name in STEPS] for node in (a, b)]
        self.levelled = any(part.name in LEVELLED and symbols(part) for side in sides for part in side)
        if sum(map(len, sides)) <= MAX_STEPS:
            left, right = (set(side) for side in sides)
            both = left & right
            sides = [[part for part in side if part not in both] for side in sides]
        self.parts = {id(part): part for side in sides for part in side if symbols(part)}
        self.ways: dict[int, set[str]] = {}
        self._now: list[tuple[int, str]] = []

    def watches(self, node: Node) -> bool:
        """Return whether `node` is one of these step functions."""
        return id(node) in self.parts

    def note(self, node: Node, way: str) -> None:
        """Record that the step function `node` takes the branch `way` at the current point."""
        self._now.append((id(node), way))

    def keep(self, agreed: bool) -> None:
        """Keep the branches recorded at this point if both trees agree there (`agreed`), else drop them."""
        if agreed:
            for key, way in self._now:
                self.ways.setdefault(key, set()).add(way)
        self._now.clear()

    def covered(self) -> bool:
        """Return whether all necessary branches of every step function were seen."""
        return all(_enough(part, self.ways.get(key, set())) for key, part in self.parts.items())


def _enough(part: Call, ways: set[str]) -> bool:
    if part.name in ("max", "min"):
        return len(ways) == len(part.args)
    if part.name in ("binom", "perm", "sum", "prod"):
        return "counts" in ways
    return len(ways) > 1
