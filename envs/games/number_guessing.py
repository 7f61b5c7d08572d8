r"""`number_guessing`: find a hidden whole number by guesses, each answered by `higher` or `lower`.

The best win rate is known exactly, so a trained model can be compared with it. Let k be the number of guesses, and let the
hidden number be drawn uniformly from n numbers. A policy that ignores the replies wins with probability at most min(1, k/n)
(`blind_bound`). Any policy wins with probability at most min(1, (2^k - 1)/n), which binary search reaches (`best_bound`).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from verigym.envs.contract.generated import Made
from verigym.envs.contract.schema import Completion, Message, Prompt, Reference, Score
from verigym.envs.contract.session import Reply
from verigym.envs.extraction.methods import extract, strip_thinking
from verigym.envs.games.base import Game, GameEnvironment, GameOptions
from verigym.envs.tools.episode import Policy

MOST_GUESSES = 100
LEAST_DIGITS = 4
"""Fewest digits of a hidden number. The texts of the game also state how many guesses are left or used. Those counts have fewer
digits, so none of them equals the hidden number by chance."""

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_PLAIN = re.compile(r"(?:guess:[ \t]?)?(-?[0-9]{1,18})", re.IGNORECASE)


class GuessingReference(Reference):
    """A hidden number, and what the player is told of it."""

    above: int
    """The number is greater than this one, which the question states."""
    below: int
    """The number is less than this one, which the question states."""
    number: int
    """The hidden number."""
    guesses: int = Field(ge=1, le=MOST_GUESSES)
    """Number of guesses that the player has. A turn without a guess counts as a guess."""

    @model_validator(mode="after")
    def _number_is_inside(self) -> Self:
        if not self.above < self.number < self.below:
            raise ValueError(f"number is {self.number}; expected more than {self.above} and less than {self.below}")
        return self


class GuessingOptions(GameOptions):
    """Options of `number_guessing`."""

    numbers: int = Field(default=100, ge=2, le=10**6)
    """Number of values that the question allows for the hidden number."""
    guesses: int = Field(default=8, ge=1, le=MOST_GUESSES)
    """How many guesses a task allows."""
    reward: Literal["found", "falling"] = "found"
    """Reward for finding the number. `found`: 1 with any guess. `falling`: 1 with the first guess, down to 1/guesses with
    the last."""


class Guessing(Game):
    """A game with one hidden number."""

    def __init__(self, reference: GuessingReference) -> None:
        self._reference = reference
        self._above, self._below = reference.above, reference.below
        self._bits = _bits(self._above, self._below)
        self.allowed = reference.guesses
        self.turns = 0
        self.last: int | None = None
        """The last guess that was read."""
        self.found = False

    def play(self, text: str) -> Reply:
        """Compare a guess with the number."""
        self.turns += 1
        left = self.allowed - self.turns
        guess = read_guess(text)
        self.last = self.last if guess is None else guess
        self.found = guess == self._reference.number
        self.over = self.found or left == 0
        gained = self._narrow(guess)
        if self.over:
            return Reply(done=True, reward=gained)
        if guess is None:
            said = r"No guess was read: write one whole number in \boxed{...}."
        else:
            said = "Higher." if guess < self._reference.number else "Lower."
        return Reply(messages=(Message(role="user", content=f"{said} {_guesses(left)} left."),), reward=gained)

    def outcome(self) -> Mapping[str, JsonValue]:
        """Return whether the number was found, and the number of guesses used."""
        return {"found": self.found, "guesses": self.turns}

    def _narrow(self, guess: int | None) -> float:
        """Note what a guess tells, and return its share of the bits to learn: those of the number, and one for naming it.

        The shares of an episode add up to 1 where the number is found and to less elsewhere, however many guesses that takes,
        so a longer episode cannot collect more.
        """
        before = self._bits
        if guess is not None and guess < self._reference.number:
            self._above = max(self._above, guess)
        elif guess is not None:
            self._below = min(self._below, guess)
        self._bits = 0.0 if self.found else _bits(self._above, self._below)
        return (before - self._bits) / _bits(self._reference.above, self._reference.below)


class GuessingEnvironment(GameEnvironment[GuessingReference, GuessingOptions, Guessing]):
    """A game of guessing a hidden whole number. The replies to guesses are `Higher.` and `Lower.`"""

    name = "number_guessing"
    version = "1"
    reference_type = GuessingReference
    options_type = GuessingOptions

    def stream(self) -> str:
        """Return the environment's name and size, so that the tasks of two sizes are drawn independently."""
        return f"{self.name}/{self.options.numbers}"

    def make(self, rng: random.Random) -> Made:
        """Return a task with a random range and a hidden number inside it.

        The question names the bounds of the range, which are never the hidden number.
        """
        numbers, guesses = self.options.numbers, self.options.guesses
        digits = max(LEAST_DIGITS, len(str(2 * numbers)) + 1)
        above = rng.randint(10 ** (digits - 1), 10**digits - numbers - 2)
        below = above + numbers + 1
        question = (
            f"I have chosen a whole number greater than {above} and less than {below}. Find it: you have {_guesses(guesses)}, "
            r"one in each turn, and I answer whether the number is higher or lower. Write each guess as \boxed{...}, with the "
            "number alone in it."
        )
        facts = {"above": above, "below": below, "number": rng.randint(above + 1, below - 1), "guesses": guesses}
        return Made(question, facts=facts)

    def begin(self, reference: GuessingReference) -> Guessing:
        """Return the game before the first guess."""
        return Guessing(reference)

    def verdict(self, game: Guessing, completion: Completion) -> Score:
        """Return the score: the reward set by the options if the number was found within the allowed guesses, or the floor."""
        allowed = game.allowed
        components = {"found": float(game.found), "guesses": float(game.turns)}
        if game.found:
            reward = 1 - (game.turns - 1) / allowed if self.options.reward == "falling" else 1.0
            reason = f"found with guess {game.turns} of {allowed}"
            return Score.correct(reward=reward, answer=str(game.last), reason=reason, components=components)
        if not game.over and completion.cut_off:
            return Score.truncated(reason=f"cut off after {_guesses(game.turns)} of {allowed}", components=components)
        if game.last is None:
            return Score.no_answer(reason=f"no guess was read in {_turns(game.turns)}", components=components)
        reason = f"not found with {_guesses(game.turns)} of {allowed}"
        return Score.incorrect(answer=str(game.last), reason=reason, components=components)

    def gold(self, prompt: Prompt) -> str:
        """Return the right guess, which wins as the first one."""
        return rf"\boxed{{{self.reference(prompt).number}}}"

    def expert(self, prompt: Prompt) -> Policy:
        """Return a policy that does binary search, using the bounds in the question and the replies."""
        reference, before = self.reference(prompt), len(prompt.messages)

        def search(messages: Sequence[Message]) -> str:
            above, below = reference.above, reference.below
            for message in messages[before:]:
                if message.role == "user":
                    middle = (above + below) // 2
                    above, below = (middle, below) if message.content.startswith("Higher.") else (above, middle)
            return rf"<think>between {above} and {below}</think>\boxed{{{(above + below) // 2}}}"

        return search

    def most_turns(self, prompt: Prompt) -> int:
        """Return the number of guesses."""
        return self.reference(prompt).guesses


def read_guess(text: str) -> int | None:
    r"""Return the number that the model guesses in `text`, its turn, or None if it guesses no number or several.

    The number must be the only content of the last `\boxed{}` after the thinking. If there is no box, the last non-empty line
    must be the number, or `Guess:` and the number.
    """
    shown = strip_thinking(text)
    if shown is None:
        return None
    box = extract(shown, ("boxed",))
    if box is not None:
        whole = not box.part and box.row is None and not box.after
        return int(box.text) if whole and _NUMBER.fullmatch(box.text) else None
    plain = _PLAIN.fullmatch(shown.rstrip().rpartition("\n")[2].strip())
    return int(plain[1]) if plain is not None else None


def blind_bound(numbers: int, guesses: int) -> float:
    """Return the highest probability with which a policy that ignores the replies finds one of `numbers` in `guesses` tries.

    The guesses of such a policy do not depend on the hidden number. They form a set of at most `guesses` numbers, which
    contains the hidden number with probability at most guesses/numbers.
    """
    return min(1.0, guesses / numbers)


def best_bound(numbers: int, guesses: int) -> float:
    """Return the highest probability with which any policy finds one of `numbers` in `guesses` tries; binary search reaches it.

    The bound is min(1, (2^k - 1)/n) for n = `numbers` and k = `guesses`. A policy is a binary tree with guesses as nodes, a
    tree of depth k has 2^k - 1 nodes, and a number is found only at its own node.
    """
    return min(1.0, ((1 << guesses) - 1) / numbers)


def _bits(above: int, below: int) -> float:
    return 1 + math.log2(below - above - 1)


def _guesses(count: int) -> str:
    return "1 guess" if count == 1 else f"{count} guesses"


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"
