"""`algebra`: linear equations, with one unknown at levels 1 to 3, two unknowns at level 4 and three at level 5."""

from __future__ import annotations

import random

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import NumberPuzzle


def _linear(coefficients: list[int], names: str, constant: int = 0) -> str:
    """Write a sum of multiples: 3x - y + 5."""
    parts: list[str] = []
    for value, name in [*zip(coefficients, names, strict=True), (constant, "")]:
        if value:
            size = "" if abs(value) == 1 and name else str(abs(value))
            sign = ("- " if value < 0 else "+ ") if parts else ("-" if value < 0 else "")
            parts.append(f"{sign}{size}{name}")
    return " ".join(parts) or "0"


def _nonzero(rng: random.Random, most: int) -> int:
    return rng.choice((-1, 1)) * rng.randint(1, most)


def determinant(rows: list[list[int]]) -> int:
    """Return the determinant of a small square matrix, by expansion along its first row."""
    if not rows:
        return 1
    minors = [[[*row[:column], *row[column + 1 :]] for row in rows[1:]] for column in range(len(rows))]
    return sum((-1) ** column * value * determinant(minors[column]) for column, value in enumerate(rows[0]))


class AlgebraEnvironment(NumberPuzzle):
    """Linear equations with one solution, which is whole."""

    name = "algebra"
    version = "2"

    def make(self, rng: random.Random) -> Made:
        """Return for example ("Solve 3x + 4 = 19 for x.", "5", "")."""
        return self._system(rng, self.level - 2) if self.level > 3 else self._single(rng)

    def _single(self, rng: random.Random) -> Made:
        level = self.level
        x, a, b = rng.randint(-9, 9) if level > 1 else rng.randint(0, 12), rng.randint(2, 9), rng.randint(1, 20)
        if level == 1:
            return Made(f"Solve {_linear([a], 'x', b)} = {a * x + b} for x.", str(x), "")
        c = rng.choice([value for value in range(-9, 10) if value not in (0, a)])
        if level == 2:
            return Made(f"Solve {_linear([a], 'x', b)} = {_linear([c], 'x', a * x + b - c * x)} for x.", str(x), "")
        inner = _nonzero(rng, 9)
        left = f"{a}({_linear([1], 'x', inner)}) {'-' if inner > 0 else '+'} {b}"
        value = a * (x + inner) + (-b if inner > 0 else b)
        return Made(f"Solve {left} = {_linear([c], 'x', value - c * x)} for x.", str(x), "")

    def _system(self, rng: random.Random, unknowns: int) -> Made:
        names = "xyz"[:unknowns]
        values = [rng.randint(-9, 9) for _ in names]
        while True:
            rows = [[_nonzero(rng, 6) for _ in names] for _ in names]
            if determinant(rows):
                break
        lines = [f"{_linear(row, names)} = {sum(a * value for a, value in zip(row, values, strict=True))}" for row in rows]
        wanted = rng.randrange(unknowns)
        return Made(f"What is {names[wanted]} if {', '.join(lines[:-1])} and {lines[-1]}?", str(values[wanted]), "")
