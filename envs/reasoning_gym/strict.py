"""Extra conditions on answers where reasoning-gym accepts impossible moves. Runs in the worker process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from verigym.envs.linear import JsonProblem, read_json
from verigym.envs.reasoning_gym.golds import SIDE, cars_of, cells_of

_POINT = r"\[([0-9]{1,3}\.5), ([0-9]{1,3}\.5)\]"
_AGENT = re.compile(rf"Agent{_POINT}")
_ACTION = re.compile(rf"move\(box_([a-z]+), (?:target_([a-z]+)|square{_POINT})\)")


def every_car_can_move(item: Mapping[str, Any], answer: str) -> bool:
    """Return whether each move of Rush Hour has its way free."""
    labels, shapes, walls, state = cars_of(item["metadata"]["board_config"])
    places = list(state)
    for label, sign, steps in re.findall(r"([A-Z])([+-])([0-9])", answer):
        if ord(label) - ord("A") >= len(labels):
            return False
        number = ord(label) - ord("A")
        size, stride = shapes[number]
        for _ in range(int(steps)):
            taken = walls.union(*(cells_of(at, *shape) for at, shape in zip(places, shapes, strict=True)))
            edge = places[number] + stride * (size if sign == "+" else -1)
            inside = edge // SIDE == places[number] // SIDE if stride == 1 else 0 <= edge < SIDE * SIDE
            if not inside or edge in taken:
                return False
            places[number] += stride if sign == "+" else -stride
    return True


def every_box_can_move(item: Mapping[str, Any], answer: str) -> bool:
    """Return whether every action of `answer` is possible.

    A possible action takes a box from the square on which it stands to an adjacent square, or puts it onto its target if this
    target is on the same square.
    """
    squares = {square: list(things) for square, things in item["metadata"]["initial_state"].items()}
    try:
        plan = read_json(answer)
    except JsonProblem:
        return False
    if not isinstance(plan, list) or not all(isinstance(step, dict) for step in plan):
        return False
    return all(_moved(squares, agent, action) for step in plan for agent, action in step.items())


def _moved(squares: dict[str, list[str]], agent: str, action: object) -> bool:
    here = _AGENT.fullmatch(agent)
    move = _ACTION.fullmatch(action) if isinstance(action, str) else None
    if here is None or move is None:
        return False
    colour, target, x, y = move.groups()
    things = squares.get(f"{here[1]}_{here[2]}", [])
    if f"box_{colour}" not in things:
        return False
    things.remove(f"box_{colour}")
    if target is not None:
        if target != colour or f"target_{colour}" not in things:
            return False
        things.remove(f"target_{colour}")
        return True
    beside = abs(float(x) - float(here[1])) + abs(float(y) - float(here[2])) == 1
    squares.get(f"{x}_{y}", []).append(f"box_{colour}")
    return beside and f"{x}_{y}" in squares


STRICT: Mapping[str, Callable[[Mapping[str, Any], str], bool]] = {
    "boxnet": every_box_can_move,
    "rush_hour": every_car_can_move,
}
"""By task: what must hold besides the library's score."""
