"""The rules of `treasure_rooms`: rooms, doors and things of a house, the state of a game, and what each command changes.

`effects` holds all rules on moves; the game, the solver and the explorer all use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from verigym.envs.contract.errors import did_you_mean
from verigym.envs.contract.schema import Reference

Direction = Literal["north", "east", "south", "west"]
DIRECTIONS: tuple[Direction, ...] = ("north", "east", "south", "west")
OPPOSITE: dict[Direction, Direction] = {"north": "south", "east": "west", "south": "north", "west": "east"}
MOST_ROOMS, MOST_THINGS, MOST_MOVES = 40, 12, 500

Name = Annotated[str, Field(pattern=r"^[a-z]+( [a-z]+){0,3}$", max_length=40)]
"""One to four words in small letters, as commands write them."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Door(_Part):
    """A way between two rooms, open or locked. It leads both ways."""

    room: Name
    """Where it begins."""
    direction: Direction
    """Direction of the door as seen from `room`; from the room `to`, it is in the opposite direction."""
    to: Name
    """Where it leads."""
    key: Name | None = None
    """The thing that unlocks it; None where it is open."""


class Container(_Part):
    """Something to look into, closed at first."""

    name: Name
    """What commands call it."""
    room: Name
    """Where it stands."""


class Thing(_Part):
    """Something to take: a key or the treasure."""

    name: Name
    """What commands call it."""
    place: Name
    """The room in which it lies, or the container that holds it."""


class HouseReference(Reference):
    """A house, in which the treasure can be reached."""

    rooms: tuple[Name, ...] = Field(min_length=1, max_length=MOST_ROOMS)
    """The names of the rooms."""
    doors: tuple[Door, ...] = Field(max_length=2 * MOST_ROOMS)
    """The doors between the rooms, open or locked; a room has at most one in each direction."""
    things: tuple[Thing, ...] = Field(min_length=1, max_length=MOST_THINGS)
    """What can be taken: the keys and the treasure."""
    containers: tuple[Container, ...] = Field(default=(), max_length=MOST_THINGS)
    """What can be opened."""
    start: Name
    """The room in which the player begins."""
    treasure: Name
    """The thing that wins the game when it is taken."""
    moves: int = Field(ge=1, le=MOST_MOVES)
    """Number of commands that the player has. A command that is not understood or changes nothing counts too."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        things, containers = [one.name for one in self.things], [one.name for one in self.containers]
        _refuse_twins([*self.rooms, *containers, *things])
        _refuse_unknown("start", [self.start], self.rooms)
        _refuse_unknown("treasure", [self.treasure], things)
        _refuse_unknown("doors", [room for door in self.doors for room in (door.room, door.to)], self.rooms)
        _refuse_unknown("doors", [door.key for door in self.doors if door.key is not None], things)
        _refuse_unknown("containers", [one.room for one in self.containers], self.rooms)
        _refuse_unknown("things", [one.place for one in self.things], [*self.rooms, *containers])
        taken: set[tuple[str, str]] = set()
        for door in self.doors:
            for side in ((door.room, door.direction), (door.to, OPPOSITE[door.direction])):
                if side in taken:
                    raise ValueError(f"doors: the room {side[0]!r} has two in the direction {side[1]}; expected at most one")
                taken.add(side)
        if not can_be_won(self):
            raise ValueError(f"the treasure {self.treasure!r} cannot be reached from {self.start!r}, with however many moves")
        return self


def _refuse_twins(names: list[str]) -> None:
    twins = [name for place, name in enumerate(names) if name in names[:place]]
    if twins:
        raise ValueError(f"{twins[0]!r} is the name of two rooms, containers or things; expected a name for each")


def _refuse_unknown(field: str, names: list[str], known: list[str] | tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{field}: there is no {name!r}{did_you_mean(name, known)}")


class Exit(NamedTuple):
    """Exit of a room: its direction and key, which the player sees, and the room behind the exit, which the player does not."""

    direction: Direction
    to: str
    key: str | None
    door: int
    """Index in `HouseReference.doors`."""


class State(NamedTuple):
    """The part of a game that can change. Items are never put down; opened doors and containers stay open."""

    room: str
    held: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()
    unlocked: frozenset[int] = frozenset()


def exits(house: HouseReference, room: str) -> list[Exit]:
    """Return the exits of `room`, in the order of the directions."""
    found = []
    for number, door in enumerate(house.doors):
        if door.room == room:
            found.append(Exit(door.direction, door.to, door.key, number))
        if door.to == room:
            found.append(Exit(OPPOSITE[door.direction], door.room, door.key, number))
    return sorted(found, key=lambda way: DIRECTIONS.index(way.direction))


def locked(way: Exit, state: State) -> bool:
    """Return whether a way is still locked."""
    return way.key is not None and way.door not in state.unlocked


def in_sight(house: HouseReference, state: State) -> list[str]:
    """Return the items that can be taken in the present room: those lying there and those in opened containers."""
    places = {state.room, *(one.name for one in house.containers if one.room == state.room and one.name in state.opened)}
    return [thing.name for thing in house.things if thing.place in places and thing.name not in state.held]


def closed_here(house: HouseReference, state: State) -> list[str]:
    """Return the containers in the present room that are still closed."""
    return [one.name for one in house.containers if one.room == state.room and one.name not in state.opened]


def effects(house: HouseReference, state: State) -> Iterator[tuple[str, State]]:
    """Yield (command, next state) for each command that changes the state."""
    for thing in in_sight(house, state):
        yield f"take {thing}", state._replace(held=state.held | {thing})
    for name in closed_here(house, state):
        yield f"open {name}", state._replace(opened=state.opened | {name})
    for way in exits(house, state.room):
        if not locked(way, state):
            yield f"go {way.direction}", state._replace(room=way.to)
        elif way.key in state.held:
            yield f"unlock {way.direction}", state._replace(unlocked=state.unlocked | {way.door})


def won(house: HouseReference, state: State) -> bool:
    """Return whether the treasure is taken."""
    return house.treasure in state.held


def can_be_won(house: HouseReference) -> bool:
    """Return whether the treasure can be reached with any number of moves.

    No command makes anything unreachable. So the search takes, opens and unlocks everything in reach until nothing changes.
    """
    state, reached, changed = State(house.start), [house.start], True
    while changed:
        changed = False
        for room in reached:  # which grows meanwhile
            for _, after in list(effects(house, state._replace(room=room))):
                if after.room not in reached:
                    reached.append(after.room)
                together = State(room, state.held | after.held, state.opened | after.opened, state.unlocked | after.unlocked)
                changed = changed or together[1:] != state[1:]
                state = together
    return won(house, state)


class Sight(NamedTuple):
    """What a player sees: the present room and no other."""

    room: str
    things: tuple[str, ...]
    """What can be taken."""
    closed: tuple[str, ...]
    """What can be opened."""
    ways: tuple[tuple[Direction, str | None], ...]
    """Directions of the exits, each with the key that unlocks it, or None if it is not locked."""


def sight(house: HouseReference, state: State) -> Sight:
    """Return what the player sees."""
    ways = tuple((way.direction, way.key if locked(way, state) else None) for way in exits(house, state.room))
    return Sight(state.room, tuple(in_sight(house, state)), tuple(closed_here(house, state)), ways)
