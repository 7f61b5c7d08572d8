"""Draws a random house. Its rooms lie on a grid, joined as a tree with a few extra connections.

Locked doors lie on the way to the treasure. The key of each door lies in a room that can be reached without opening that door.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import NamedTuple

from verigym.envs.games.treasure_rooms.solving import explored
from verigym.envs.games.treasure_rooms.world import DIRECTIONS, MOST_MOVES, Container, Direction, Door, HouseReference, Thing
from verigym.envs.generated.puzzles.base import at

ROOMS = (4, 5, 7, 9, 12)
LOCKS = (1, 1, 2, 2, 3)
CONTAINERS = (0, 1, 2, 3, 5)
HIDDEN = (0, 1, 2, 2, 3)
LOOPS = (0, 0, 1, 1, 2)
"""Numbers for each of the five levels: ROOMS, LOCKS (locked doors), CONTAINERS, HIDDEN (things in containers), and LOOPS
(connections between rooms beyond those of the tree)."""

ROOM_NAMES = (
    "attic armoury ballroom bathroom bedroom cellar chapel conservatory corridor dungeon gallery garage garden hall kitchen "
    "larder laundry library lobby nursery observatory office pantry parlour pavilion porch scullery shed stable studio study "
    "theatre tower vault veranda workshop"
).split()
CONTAINER_NAMES = "barrel basket box cabinet chest crate cupboard drawer sack trunk".split()
KEY_COLOURS = "amber black blue brass copper green iron red silver white".split()
TREASURES = "amulet crown diamond goblet harp mask medal pearl ruby sceptre sword tiara".split()

_STEPS: dict[Direction, tuple[int, int]] = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
Cell = tuple[int, int]


def draw_house(rng: random.Random, level: int, slack: float) -> HouseReference:
    """Return a random house. A player has to unlock all its locked doors to reach the treasure.

    Args:
        rng: the only source of randomness.
        level: difficulty from 1 to 5.
        slack: the number of moves allowed, as a multiple of the number that the explorer (`solving.Explorer`) needs.
    """
    plan = _plan(rng, at(level, ROOMS), at(level, LOCKS))
    rooms = rng.sample(ROOM_NAMES, len(plan.cells))
    keys = [f"{colour} key" for colour in rng.sample(KEY_COLOURS, len(plan.locks))]
    treasure = rng.choice(TREASURES)
    doors = [Door(room=rooms[a], direction=_direction(plan.cells, a, b), to=rooms[b]) for a, b in plan.ways]
    for (a, b), key in zip(plan.locks, keys, strict=True):
        doors[plan.ways.index((a, b))] = Door(room=rooms[a], direction=_direction(plan.cells, a, b), to=rooms[b], key=key)
    for a, b in _loops(rng, plan, at(level, LOOPS)):
        doors.append(Door(room=rooms[a], direction=_direction(plan.cells, a, b), to=rooms[b]))
    # Key number i lies before door number i, so that it can be had.
    before = [[room for room, passed in enumerate(plan.passed) if passed <= number] for number in range(len(keys))]
    places = {key: rooms[rng.choice(choice)] for key, choice in zip(keys, before, strict=True)} | {treasure: rooms[plan.goal]}
    names = rng.sample(CONTAINER_NAMES, at(level, CONTAINERS))
    hidden = dict(zip([keys[-1], treasure, keys[0]][: at(level, HIDDEN)], names, strict=False))
    inside = {container: places[thing] for thing, container in hidden.items()}
    house = HouseReference(
        rooms=tuple(rooms),
        doors=tuple(doors),
        things=tuple(Thing(name=thing, place=hidden.get(thing, room)) for thing, room in places.items()),
        containers=tuple(Container(name=name, room=inside.get(name) or rng.choice(rooms)) for name in names),
        start=rooms[plan.start],
        treasure=treasure,
        moves=MOST_MOVES,
    )
    return house.model_copy(update={"moves": min(MOST_MOVES, math.ceil(slack * len(explored(house))))})


class _Plan(NamedTuple):
    """Rooms as numbers."""

    cells: list[Cell]
    """Where each room is on the grid."""
    ways: list[tuple[int, int]]
    """A tree."""
    start: int
    goal: int
    locks: list[tuple[int, int]]
    """The ways of the tree that are locked, in the order in which one comes to them."""
    passed: list[int]
    """How many locked doors lie between the start and each room."""


def _plan(rng: random.Random, count: int, locks: int) -> _Plan:
    """Draw a tree until the way to the farthest room is long enough for the locks and one way more."""
    while True:
        cells, ways = _tree(rng, count)
        start = rng.randrange(count)
        paths = _paths(ways, start, count)
        goal = max(range(count), key=lambda room: len(paths[room]))
        if len(paths[goal]) > locks:
            chosen = sorted(rng.sample(range(len(paths[goal])), locks))
            locked = [paths[goal][place] for place in chosen]
            return _Plan(cells, ways, start, goal, locked, [sum(way in path for way in locked) for path in paths])


def _tree(rng: random.Random, count: int) -> tuple[list[Cell], list[tuple[int, int]]]:
    cells: list[Cell] = [(0, 0)]
    ways = []
    while len(cells) < count:
        beside = rng.randrange(len(cells))
        x, y = _STEPS[rng.choice(DIRECTIONS)]
        cell = (cells[beside][0] + x, cells[beside][1] + y)
        if cell not in cells:
            ways.append((beside, len(cells)))
            cells.append(cell)
    return cells, ways


def _paths(ways: list[tuple[int, int]], start: int, count: int) -> list[list[tuple[int, int]]]:
    """Return the ways of the tree from the start to each room."""
    paths: dict[int, list[tuple[int, int]]] = {start: []}
    while len(paths) < count:
        for way in ways:
            for here, there in (way, way[::-1]):
                if here in paths and there not in paths:
                    paths[there] = [*paths[here], way]
    return [paths[room] for room in range(count)]


def _loops(rng: random.Random, plan: _Plan, count: int) -> list[tuple[int, int]]:
    """Return ways between neighbours on the grid that lie behind the same doors, so that they lead around none."""
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(len(plan.cells)), 2)
        if math.dist(plan.cells[a], plan.cells[b]) == 1 and (a, b) not in plan.ways and plan.passed[a] == plan.passed[b]
    ]
    return rng.sample(pairs, min(count, len(pairs)))


def _direction(cells: list[Cell], a: int, b: int) -> Direction:
    step = (cells[b][0] - cells[a][0], cells[b][1] - cells[a][1])
    return next(direction for direction, one in _STEPS.items() if one == step)
