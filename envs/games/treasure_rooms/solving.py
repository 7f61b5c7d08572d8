"""A shortest solution of a house, and an explorer that finds the treasure using only what a player sees."""

from __future__ import annotations

from collections import deque

from verigym.envs.games.treasure_rooms.world import (
    OPPOSITE,
    Direction,
    HouseReference,
    Sight,
    State,
    effects,
    sight,
    won,
)


def shortest(house: HouseReference) -> list[str]:
    """Return the commands of a shortest solution, by breadth-first search over the states of the game.

    The search knows the whole house, so a player who has to explore needs more commands. A valid house always has a solution.
    """
    useful = {house.treasure, *(door.key for door in house.doors)}
    idle = {f"open {one.name}" for one in house.containers} - {
        f"open {thing.place}" for thing in house.things if thing.name in useful
    }
    start = State(house.start)
    came: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if won(house, state):
            return _commands(came, state)
        for command, after in effects(house, state):
            if command not in idle and after not in came:
                came[after] = (state, command)
                waiting.append(after)
    raise ValueError(f"the treasure {house.treasure!r} cannot be reached")


def _commands(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    commands = []
    while (step := came[state]) is not None:
        state, command = step
        commands.append(command)
    return commands[::-1]


class Explorer:
    """A deterministic player: takes and opens all it sees, unlocks what it can, and goes to the nearest exit not tried yet."""

    def __init__(self) -> None:
        self._ways: dict[str, dict[Direction, str | None]] = {}
        self._leads: dict[tuple[str, Direction], str] = {}
        self._held: set[str] = set()
        self._went: tuple[str, Direction] | None = None

    def command(self, seen: Sight) -> str:
        """Return the next command, based on `seen`, what the player sees now, and on what was seen before."""
        self._remember(seen)
        if seen.things:
            self._held.add(seen.things[0])
            return f"take {seen.things[0]}"
        if seen.closed:
            return f"open {seen.closed[0]}"
        for direction, key in seen.ways:
            if key in self._held:
                return f"unlock {direction}"
        direction = self._towards_news(seen.room)
        self._went = (seen.room, direction)
        return f"go {direction}"

    def _remember(self, seen: Sight) -> None:
        self._ways[seen.room] = dict(seen.ways)
        if self._went is not None:
            room, direction = self._went
            self._leads[room, direction] = seen.room
            self._leads[seen.room, OPPOSITE[direction]] = room
            self._went = None

    def _towards_news(self, room: str) -> Direction:
        """Return the first step to the nearest way that leads to a room not seen yet, or that a key in hand unlocks."""
        waiting: deque[tuple[str, Direction | None]] = deque([(room, None)])
        seen = {room}
        while waiting:
            place, first = waiting.popleft()
            for direction, key in self._ways[place].items():
                if key in self._held or (key is None and (place, direction) not in self._leads):
                    return first or direction
            for direction in self._ways[place]:
                to = self._leads.get((place, direction))
                if to is not None and to not in seen:
                    seen.add(to)
                    waiting.append((to, first or direction))
        raise ValueError("every way has been tried and every key; the treasure cannot be reached")


def explored(house: HouseReference) -> list[str]:
    """Return the commands with which the explorer wins."""
    explorer, state, commands = Explorer(), State(house.start), list[str]()
    while not won(house, state):
        commands.append(explorer.command(sight(house, state)))
        state = dict(effects(house, state))[commands[-1]]
    return commands
