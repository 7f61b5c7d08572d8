"""Right answers for tasks where reasoning-gym gives no answer or a wrong one. Runs in the worker process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Item = Mapping[str, Any]

SIDE = 6
_RUSH_STATES = 200_000
_ROW_OF_THE_EXIT = 2


def _rounded_to(places: int) -> Callable[[Item], str]:
    def gold(item: Item) -> str:
        return ", ".join(f"{float(root):.{places}f}" for root in item["answer"].split(",") if root.strip())

    return gold


def _largest_or_smallest(item: Item) -> str:
    """The candidates are written with three places; the library's gold carries the error of a binary fraction."""
    return f"{float(item['metadata']['solution']):.3f}"


def _pooled(item: Item) -> str:
    rows = [line.split() for line in item["answer"].splitlines()]
    return "\n".join(" ".join(f"{float(cell):.2f}" for cell in row) for row in rows)


def _boxes_carried(item: Item) -> str:
    """Carry each box on its own to a target of its colour, one square at a time."""
    places: dict[str, list[tuple[str, str]]] = {}
    for square, things in item["metadata"]["initial_state"].items():
        for thing in things:
            kind, _, colour = thing.partition("_")
            places.setdefault(colour, []).append((kind, square))
    plan: list[dict[str, str]] = []
    for colour, found in sorted(places.items()):
        boxes = [square for kind, square in found if kind == "box"]
        targets = [square for kind, square in found if kind == "target"]
        for box, target in zip(boxes, targets, strict=True):
            x, y = map(float, box.split("_"))
            goal_x, goal_y = map(float, target.split("_"))
            while (x, y) != (goal_x, goal_y):
                next_x = x + (goal_x > x) - (goal_x < x)
                next_y = y if next_x != x else y + (goal_y > y) - (goal_y < y)
                plan.append({f"Agent[{x}, {y}]": f"move(box_{colour}, square[{next_x}, {next_y}])"})
                x, y = next_x, next_y
            plan.append({f"Agent[{x}, {y}]": f"move(box_{colour}, target_{colour})"})
    return json.dumps(plan)


def _way_out(item: Item) -> str:
    """Search the positions of Rush Hour breadth first until the first car stands at the exit."""
    _, shapes, walls, first = cars_of(item["metadata"]["board_config"])
    seen: dict[tuple[int, ...], tuple[tuple[int, ...], str] | None] = {first: None}
    queue = [first]
    for state in queue:
        if state[0] == _ROW_OF_THE_EXIT * SIDE + SIDE - shapes[0][0]:
            return " ".join(_steps(seen, state))
        if len(seen) > _RUSH_STATES:
            break
        taken = walls.union(*(cells_of(at, *shape) for at, shape in zip(state, shapes, strict=True)))
        for number, (at, (size, stride)) in enumerate(zip(state, shapes, strict=True)):
            for step in (-1, 1):
                edge = at + stride * (size if step > 0 else -1)
                inside = edge // SIDE == at // SIDE if stride == 1 else 0 <= edge < SIDE * SIDE
                after = (*state[:number], at + step * stride, *state[number + 1 :])
                if inside and edge not in taken and after not in seen:
                    seen[after] = (state, f"{chr(ord('A') + number)}{'+' if step > 0 else '-'}1")
                    queue.append(after)
    return ""


def cars_of(board: str) -> tuple[list[str], list[tuple[int, int]], frozenset[int], tuple[int, ...]]:
    """Return (labels, shapes, walls, first cells) of a Rush Hour board, a text with one character per cell.

    Labels, shapes and first cells have one entry per car. A shape is (number of cells of the car, difference between the
    indices of two neighbouring cells). The difference is 1 for a horizontal car. Walls are a set of cell indices.
    """
    cars: dict[str, list[int]] = {}
    for cell, label in enumerate(board):
        if label not in "ox.":
            cars.setdefault(label, []).append(cell)
    labels = sorted(cars)
    shapes = [(len(cars[label]), cars[label][1] - cars[label][0]) for label in labels]
    walls = frozenset(cell for cell, label in enumerate(board) if label == "x")
    return labels, shapes, walls, tuple(cars[label][0] for label in labels)


def cells_of(at: int, size: int, stride: int) -> range:
    """Return the cells that a car covers."""
    return range(at, at + size * stride, stride)


def _steps(seen: Mapping[tuple[int, ...], tuple[tuple[int, ...], str] | None], state: tuple[int, ...]) -> list[str]:
    """Return the moves that led to a state, those of one car in one direction joined."""
    moves: list[str] = []
    while (before := seen[state]) is not None:
        state, move = before
        if moves and moves[-1][:2] == move[:2]:
            moves[-1] = f"{move[:2]}{int(moves[-1][2:]) + 1}"
        else:
            moves.append(move)
    return moves[::-1]


_MADE: Mapping[str, Callable[[Item], str]] = {
    "boxnet": _boxes_carried,
    "graph_color": lambda item: json.dumps(item["metadata"]["possible_answer"]),
    "number_format": _largest_or_smallest,
    "polynomial_equations": _rounded_to(4),
    "pool_matrix": _pooled,
    "rubiks_cube": lambda item: str(item["metadata"]["example_correct_answer"]),
    "rush_hour": _way_out,
}


def gold_of(task: str, item: Item) -> str:
    """Return a right answer to `item`, or an empty string if there is none and the item cannot be used."""
    made = _MADE.get(task)
    given = made(item) if made else item["answer"]
    return "" if given is None else str(given)
