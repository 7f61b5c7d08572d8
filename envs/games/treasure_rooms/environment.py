"""The `treasure_rooms` environment: the texts of the game, its tasks, and the verdict."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from verigym.envs.contract.base import ExpectedVerdicts
from verigym.envs.contract.generated import Made
from verigym.envs.contract.schema import Completion, Message, Prompt, Score
from verigym.envs.contract.session import Reply
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.games.base import Game, GameEnvironment, GameOptions
from verigym.envs.games.treasure_rooms.drawing import draw_house
from verigym.envs.games.treasure_rooms.solving import explored, shortest
from verigym.envs.games.treasure_rooms.world import HouseReference, Sight, State, effects, exits, locked, sight, won
from verigym.envs.generated.puzzles.base import Levelled
from verigym.envs.tools.episode import Policy

LONGEST_COMMAND = 80
_COMMAND = re.compile(r"(look|inventory)|(go|unlock) (north|east|south|west)|(take|open) ([a-z]+(?: [a-z]+){0,3})")
_FORMS = "look, inventory, go DIRECTION, take THING, open THING, unlock DIRECTION"
_NOT_READ = f"Not understood. The last line must be one command: {_FORMS}."


class RoomsOptions(Levelled, GameOptions):
    """Options of `treasure_rooms`."""

    slack: float = Field(default=1.5, ge=1, le=5)
    """Number of moves that a task allows, as a multiple of the moves that a systematic explorer (`solving.Explorer`) needs."""
    key_credit: float = Field(default=0.0, ge=0, lt=1)
    """Reward for finding all keys but not the treasure. If only a fraction of the keys is found, the reward is that fraction of
    this value."""


class Exploring(Game):
    """A game in one house."""

    def __init__(self, house: HouseReference) -> None:
        self.house, self.state = house, State(house.start)
        self.moves = 0
        self.understood = 0
        """Turns that held a command."""

    @property
    def won(self) -> bool:
        """Whether the treasure is taken."""
        return won(self.house, self.state)

    @property
    def keys(self) -> float:
        """Return the fraction of the keys that were found, or 1 if the house has none."""
        count = len(self.house.things) - 1
        return len(self.state.held - {self.house.treasure}) / count if count else 1.0

    def play(self, text: str) -> Reply:
        """Obey a command."""
        self.moves += 1
        before, command = self._progress(), read_command(text)
        self.understood += command is not None
        said = _NOT_READ if command is None else self._obey(command)
        left = self.house.moves - self.moves
        self.over = self.won or left == 0
        gained = self._progress() - before
        if self.over:
            return Reply(done=True, reward=gained)
        return Reply(messages=(Message(role="user", content=f"{said} {_moves(left)} left."),), reward=gained)

    def outcome(self) -> Mapping[str, JsonValue]:
        """Return whether the game is won, the number of moves so far, and the player's items and present room."""
        return {"won": self.won, "moves": self.moves, "room": self.state.room, "held": [*sorted(self.state.held)]}

    def _progress(self) -> float:
        """Return how far the player is: each key and each unlocked door is a step, the treasure all the rest.

        Nothing is ever lost again, so what the turns of an episode gain adds up to 1 where it is won, and to less elsewhere.
        """
        if self.won:
            return 1.0
        steps = len(self.house.things) - 1 + sum(door.key is not None for door in self.house.doors)
        return (len(self.state.held) + len(self.state.unlocked)) / (steps + 1)

    def _obey(self, command: str) -> str:
        """Change the state by a command, and return what the player reads."""
        if command == "look":
            return described(sight(self.house, self.state))
        if command == "inventory":
            return f"You carry: {', '.join(sorted(self.state.held)) or 'nothing'}."
        after = dict(effects(self.house, self.state)).get(command)
        verb, _, what = command.partition(" ")
        if after is None:
            return self._why_not(verb, what)
        seen, self.state = sight(self.house, self.state).things, after
        if verb == "go":
            return described(sight(self.house, self.state))
        if verb == "open":
            found = [thing for thing in sight(self.house, self.state).things if thing not in seen]
            return f"You open the {what}. Inside: {', '.join(found) or 'nothing'}."
        return f"You take the {what}." if verb == "take" else f"You unlock the door to the {what}."

    def _why_not(self, verb: str, what: str) -> str:
        if verb in ("take", "open"):
            return f"There is nothing of that name to {verb} here."
        way = next((way for way in exits(self.house, self.state.room) if way.direction == what), None)
        if way is None:
            return f"No way leads {what} from here."
        if locked(way, self.state):
            return (
                f"The door to the {what} is locked, and you do not have the {way.key}."
                if verb == "unlock"
                else (f"The door to the {what} is locked; it opens with the {way.key}.")
            )
        return f"The way {what} is open."


class TreasureRoomsEnvironment(GameEnvironment[HouseReference, RoomsOptions, Exploring]):
    """A game of exploring a house by commands: find keys, unlock doors and take the treasure. Each reply shows one room."""

    name = "treasure_rooms"
    version = "1"
    reference_type = HouseReference
    options_type = RoomsOptions
    # One command does not win a game, so no single text can be the gold; `demonstrate` plays one that wins.
    expected_verdicts = ExpectedVerdicts(gold="free")

    def stream(self) -> str:
        """Return the environment's name and level, so that the tasks of two levels are drawn independently."""
        return f"{self.name}/level {self.options.level}"

    def make(self, rng: random.Random) -> Made:
        """Return a task with a random house and a description of the room in which the player begins."""
        house = draw_house(rng, self.options.level, self.options.slack)
        return Made(question(house), facts=dict(house))

    def begin(self, reference: HouseReference) -> Exploring:
        """Return the game before the first command."""
        return Exploring(reference)

    def verdict(self, game: Exploring, completion: Completion) -> Score:
        """Return the score: 1 if the treasure was taken within the allowed moves, else `key_credit` * share of keys found."""
        components = {"won": float(game.won), "moves": float(game.moves), "keys": game.keys}
        used = f"{game.moves} of {_moves(game.house.moves)}"
        if game.won:
            return Score.correct(reason=f"took the {game.house.treasure} after {used}", components=components)
        credit = self.options.key_credit * game.keys
        if credit > 0:
            reason = f"found {game.keys:.0%} of the keys and not the {game.house.treasure} in {used}"
            return Score.partial(credit, reason=reason, components=components)
        if not game.over and completion.cut_off:
            return Score.truncated(reason=f"cut off after {used}", components=components)
        if not game.understood:
            return Score.no_answer(reason=f"no command was read in {used}", components=components)
        return Score.incorrect(reason=f"did not take the {game.house.treasure} in {used}", components=components)

    def expert(self, prompt: Prompt) -> Policy:
        """Return a policy that explores the house, knowing only what the replies have shown."""
        commands, before = explored(self.reference(prompt)), len(prompt.messages)
        return lambda messages: commands[sum(message.role == "assistant" for message in messages[before:])]

    def solution(self, prompt: Prompt) -> Sequence[str]:
        """Return the commands of a shortest solution, for a player who knows the whole house."""
        return shortest(self.reference(prompt))

    def most_turns(self, prompt: Prompt) -> int:
        """Return the number of moves."""
        return self.reference(prompt).moves


def question(house: HouseReference) -> str:
    """Return the text that the player reads at the start: the aim, the commands, and the first room."""
    return (
        f"Somewhere in this house is a treasure, the {house.treasure}. Find it and take it, in at most {_moves(house.moves)}. "
        "You see only the room in which you are. Each of your turns is one move: end it with one command, alone on the last "
        f"line. The commands are: {_FORMS}. A command that is not understood or cannot be obeyed is a move, too. Every way "
        f"leads both ways. A locked door opens with its key, once you have taken it.\n\n"
        f"{described(sight(house, State(house.start)))}"
    )


def described(seen: Sight) -> str:
    """Return what the player sees, in words."""
    here = [*seen.things, *(f"{name} (closed)" for name in seen.closed)]
    ways = [direction if key is None else f"{direction} (locked, opens with the {key})" for direction, key in seen.ways]
    return f"You are in the {seen.room}. You see: {', '.join(here) or 'nothing'}. Ways out: {', '.join(ways) or 'none'}."


def read_command(text: str) -> str | None:
    """Return the command in `text`, a turn: the last non-empty line after the thinking, or None if that line is no command.

    Case does not matter, nor does white space around and between the words. Any other addition makes the command invalid.
    """
    shown = strip_thinking(text)
    if shown is None:
        return None
    line = shown.rstrip().rpartition("\n")[2].strip()
    if len(line) > LONGEST_COMMAND:
        return None
    line = " ".join(line.lower().split())
    return line if _COMMAND.fullmatch(line) else None


def _moves(count: int) -> str:
    return "1 move" if count == 1 else f"{count} moves"
