"""Conversations by a random model: an environment that replies to every turn, slowly or not, and a model that ends turns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from verigym.envs import BaseEnvironment, Completion, Message, Options, Prompt, Reference, Reply, Score, Turn
from verigym.trainer.rng import keyed_int, keyed_random

if TYPE_CHECKING:
    from verigym.trainer.models.codec import Codec

WORDS = "train test 3 12 so it goes on and on"


class ChatOptions(Options):
    turns: int = Field(default=4, ge=1)
    most_s: float = Field(default=0.0, ge=0)
    """Longest time of a reply; how long it takes is drawn by hash."""
    salt: str = ""
    """Part of that hash."""
    meet: str = ""
    """A folder: the first reply to sample 0 comes when another episode has ended, which notes it there."""


class Nothing(Reference):
    pass


class Chat:
    """Replies with words that depend on all that was said."""

    tools = ()

    def __init__(self, options: ChatOptions, seed: str) -> None:
        self.options, self.seed = options, seed
        self.said: list[str] = []

    def read(self, text: str) -> Turn:
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        self.said.append(turn.text)
        options = self.options
        if options.meet and self.seed.endswith("/0") and len(self.said) == 1:
            deadline = time.monotonic() + 1800
            while not list(Path(options.meet).iterdir()):
                if time.monotonic() > deadline:
                    raise TimeoutError("no other episode has ended")
                time.sleep(0.01)
        time.sleep(options.most_s * keyed_random("wait", options.salt, self.seed, len(self.said)).random())
        if len(self.said) == options.turns:
            return Reply(done=True)
        draw = keyed_random("reply", self.seed, *self.said)
        words = " ".join(draw.choices(WORDS.split(), k=draw.randint(1, 6)))
        return Reply(messages=(Message(role="user", content=words),))

    def close(self) -> Mapping[str, int]:
        if self.options.meet:
            Path(self.options.meet, str(keyed_int(self.seed))).touch()
        return {"turns": len(self.said)}


class ChatEnvironment(BaseEnvironment[Nothing, ChatOptions]):
    """Right if the last text's characters add up to an even number."""

    name, version, reference_type, options_type = "chat", "1", Nothing, ChatOptions

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.prompt(f"{split} {seed} {index}")

    def open(self, prompt: Prompt, seed: str) -> Chat:
        return Chat(self.options, seed)

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        return Score.correct() if sum(map(ord, completion.text)) % 2 == 0 else Score.incorrect()


def chatting_model(hidden_size: int = 32) -> tuple[Any, Codec]:
    """Return a random model with two heads that about one token in ten ends, and its codec."""
    # Here, because the workers of sessions import this file and need no torch.
    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.scratch import CONVERSATION_TEMPLATE, scratch_qwen3, scratch_tokenizer

    tokenizer = scratch_tokenizer([WORDS] * 3, 300, template=CONVERSATION_TEMPLATE)
    ends = [f"<end{number}>" for number in range(len(tokenizer) // 10)]
    tokenizer.add_special_tokens({"additional_special_tokens": ends})
    model = scratch_qwen3(tokenizer, hidden_size=hidden_size, layers=2, heads=2, intermediate_size=64, max_positions=256)
    model.generation_config.eos_token_id = [one for one in tokenizer.all_special_ids if one != tokenizer.pad_token_id]
    return model.eval(), Codec(tokenizer, model.generation_config)
