"""Base classes of games. A game's rules are written once; the session that plays and the verdict on an episode both use them.

`judge` plays the game again from the assistant's turns. It ignores everything else in a saved episode, since whoever wrote the
file could have invented the replies, the rewards of turns and the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from pydantic import JsonValue

from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.generated import GeneratedTasks
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Turn
from verigym.envs.contract.session import Reply, ToolSpec
from verigym.envs.tools.episode import Policy, run_episode

EXAMPLES = 4


class GameOptions(Options):
    """Options that all games share."""

    turn_rewards: bool = False
    """Whether each turn has a reward for its progress (`Turn.reward`). The rewards of a won game add up to 1."""


class Game(ABC):
    """One game being played: the rules and the state."""

    over: bool = False
    """Whether the game has ended, won or lost. `play` is not called after that."""

    @abstractmethod
    def play(self, text: str) -> Reply:
        """Play one turn. Every `text` counts as a turn; if the text is not a valid move, the reply says so.

        Returns:
            The text that the player reads next, and the reward of the turn in `Reply.reward`, which is never None here.
        """

    @abstractmethod
    def outcome(self) -> Mapping[str, JsonValue]:
        """Return the final state of the game, for readers of saved episodes."""


class GameSession:
    """One episode of a game."""

    tools: Sequence[ToolSpec] = ()

    def __init__(self, game: Game, *, turn_rewards: bool) -> None:
        self._game, self._turn_rewards, self._closed = game, turn_rewards, False

    def read(self, text: str) -> Turn:
        """Return the model's `text` as a turn. Games have no tools, so the turn holds no tool calls."""
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        """Play a turn.

        Raises:
            UsageError: the session is closed.
        """
        if self._closed:
            raise UsageError("the session is closed: each episode opens its own, env.open(prompt, seed)")
        if self._game.over:
            return Reply(done=True)
        reply = self._game.play(turn.text)
        return reply if self._turn_rewards else reply.model_copy(update={"reward": None})

    def close(self) -> Mapping[str, JsonValue]:
        """End the episode and return the game's final state."""
        self._closed = True
        return dict(self._game.outcome())


R = TypeVar("R", bound=Reference)
Opts = TypeVar("Opts", bound=GameOptions)
G = TypeVar("G", bound=Game)


class GameEnvironment(GeneratedTasks[R, Opts], Generic[R, Opts, G]):
    """Base class of environments that are games. A subclass writes `make`, `begin`, `verdict`, `expert` and `most_turns`."""

    @abstractmethod
    def begin(self, reference: R) -> G:
        """Return the game at its start."""

    @abstractmethod
    def verdict(self, game: G, completion: Completion) -> Score:
        """Return the score of `game` after its last turn. `completion` is used only to see how the episode ended."""

    @abstractmethod
    def expert(self, prompt: Prompt) -> Policy:
        """Return a policy that plays this task well, using only the texts that a player reads."""

    @abstractmethod
    def most_turns(self, prompt: Prompt) -> int:
        """Return the number of turns after which the game always ends, for `run_episode(max_turns=...)`."""

    def open(self, prompt: Prompt, seed: str) -> GameSession:
        """Return the session of a new episode on `prompt`. `seed` has no effect: chance plays a part only in making the task.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        return GameSession(self.begin(self.reference(prompt)), turn_rewards=self.options.turn_rewards)

    def judge(self, prompt: Prompt, reference: R, completion: Completion) -> Score:
        """Play the assistant's turns again, up to the end of the game, and return the resulting score."""
        game = self.begin(reference)
        for text in written_texts(completion):
            if game.over:
                break
            game.play(text)
        return self.verdict(game, completion)

    def demonstrate(self, prompt: Prompt, seed: str = "0") -> Completion:
        """Return an episode played by the expert policy, as data for supervised training before reinforcement learning."""
        return run_episode(self, prompt, self.expert(prompt), seed=seed, max_turns=self.most_turns(prompt))

    def examples(self) -> Sequence[Prompt]:
        """Return the first few tasks of the training split."""
        return tuple(self.prompt_at("train", 0, index) for index in range(EXAMPLES))


def written_texts(completion: Completion) -> list[str]:
    """Return the texts that the model wrote, in order. A completion without turns counts as an episode of one turn."""
    if not completion.turns:
        return [completion.text]
    return [turn.text for turn in completion.turns if turn.role == "assistant"]
