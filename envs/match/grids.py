"""Kinds `sudoku` and `queens`: any board that follows the rules is right, not only the author's own solution."""

from __future__ import annotations

import re

from verigym.envs.contract.errors import UsageError
from verigym.envs.latex.formatting import strip_formatting
from verigym.envs.match.kind import Kind, MatchReference, Verdict

_FRAME = re.compile(r"[\s|+_,;\[\]-]+")
_BOXES = {16: 2, 81: 3}
LARGEST_BOARD = 100
MOST_CHARACTERS = 20_000


def cells(text: str) -> str:
    """Return the cells of a grid drawn as text, without the separators between them."""
    return _FRAME.sub("", text).replace("0", ".")


def _check_sudoku(reference: MatchReference) -> None:
    puzzle = cells(reference.puzzle or "")
    box = _BOXES.get(len(puzzle))
    if box is None or not set(puzzle) <= {".", *map(str, range(1, box * box + 1))}:
        raise UsageError("field 'puzzle': kind='sudoku' needs 16 or 81 cells, digits or 0 or . for an empty one")
    if reference.example is not None:
        verdict = _judge_sudoku(reference, reference.example)
        if not verdict.right:
            raise UsageError(f"field 'example': no solution of the puzzle: {verdict.reason}")


def _judge_sudoku(reference: MatchReference, answer: str) -> Verdict:
    puzzle = cells(reference.puzzle or "")
    box = _BOXES[len(puzzle)]
    side = box * box
    digits = cells(answer) if len(answer) <= MOST_CHARACTERS else ""
    if len(digits) != len(puzzle) or not set(digits) <= set(map(str, range(1, side + 1))):
        return Verdict(None, f"no grid of {side} times {side} digits")
    if any(given not in (".", cell) for given, cell in zip(puzzle, digits, strict=True)):
        return Verdict(False, "a given cell was changed")
    rows = [digits[at * side : (at + 1) * side] for at in range(side)]
    columns = [digits[at::side] for at in range(side)]
    boxes = [
        "".join(rows[top + down][left : left + box] for down in range(box))
        for top in range(0, side, box)
        for left in range(0, side, box)
    ]
    for name, groups in (("row", rows), ("column", columns), ("box", boxes)):
        for number, group in enumerate(groups, start=1):
            if len(set(group)) < side:
                return Verdict(False, f"{name} {number} holds a digit twice")
    return Verdict(True, "every row, column and box holds each digit once")


def _check_queens(reference: MatchReference) -> None:
    if reference.size is None or not 4 <= reference.size <= LARGEST_BOARD:
        raise UsageError(f"field 'size': kind='queens' needs a board of 4 to {LARGEST_BOARD}; got {reference.size!r}")


def _columns(answer: str, size: int) -> list[int] | None:
    """Read one column a row, counted from 1, or a drawn board with Q for a queen and . for none."""
    if len(answer) > MOST_CHARACTERS:
        return None
    if "Q" in answer:
        rows = [_FRAME.sub("", line) for line in answer.splitlines() if line.strip()]
        if len(rows) != size or len({*"".join(rows)} - {"Q"}) != 1:
            return None  # one sign for every empty cell
        if any(len(row) != size or row.count("Q") != 1 for row in rows):
            return None
        return [row.index("Q") + 1 for row in rows]
    if not re.fullmatch(r"[\[(]?\s*+[0-9]{1,3}(?:[\s,]++[0-9]{1,3})*\s*+[\])]?", answer):
        return None
    columns = [int(word) for word in re.findall(r"[0-9]+", answer)]
    return columns if len(columns) == size and all(1 <= column <= size for column in columns) else None


def _judge_queens(reference: MatchReference, answer: str) -> Verdict:
    size = reference.size or 0
    columns = _columns(strip_formatting(answer), size)
    if columns is None:
        return Verdict(None, f"no placement of {size} queens, one a row")
    for name, lines in (
        ("column", columns),
        ("diagonal", [row + column for row, column in enumerate(columns)]),
        ("diagonal", [row - column for row, column in enumerate(columns)]),
    ):
        if len(set(lines)) < size:
            return Verdict(False, f"two queens share a {name}")
    return Verdict(True, "no two queens attack each other")


def _gold_queens(reference: MatchReference) -> str:
    """Return Pauls's placement (1874): even columns, then odd ones, rearranged where the size leaves 2 or 3 over 6."""
    size = reference.size or 0
    even, odd = [*range(2, size + 1, 2)], [*range(1, size + 1, 2)]
    if size % 6 == 2:
        odd = [3, 1, *odd[3:], 5]
    elif size % 6 == 3:
        even, odd = [*even[1:], 2], [*odd[2:], 1, 3]
    return ", ".join(map(str, even + odd))


SUDOKU = Kind(frozenset({"puzzle", "example"}), _check_sudoku, _judge_sudoku, lambda r: r.example, ("fence", "tag", "boxed"))
QUEENS = Kind(frozenset({"size"}), _check_queens, _judge_queens, _gold_queens, ("boxed", "tag", "fence"))
