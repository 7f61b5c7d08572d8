"""Conversations for trainer tests: a tokenizer that knows turns, an engine that writes what it is told, sums with a tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from letters import LettersEnvironment

from verigym.envs import BaseEnvironment, Completion, Message, Options, Prompt, Reference, Score, ToolEnvironment, run_episode
from verigym.tools import calculator
from verigym.trainer.engines.base import Generated, OnFinished
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import CONVERSATION_TEMPLATE, scratch_qwen3, scratch_tokenizer
from verigym.trainer.rng import keyed_random
from verigym.trainer.stages.examples import Example, episode_examples, to_pairs
from verigym.trainer.stages.quickstart import cold_start

CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "37*41"}}</tool_call>'
BROKEN_CALL = '<tool_call>{"name": "calculator", "arguments": </tool_call>'


class Sum(Reference):
    answer: str


class SumEnvironment(BaseEnvironment[Sum, Options]):
    """Right if the text is the answer."""

    name, version, reference_type = "sum", "1", Sum

    def judge(self, prompt: Prompt, reference: Sum, completion: Completion) -> Score:
        right = completion.text.strip() == reference.answer
        return Score.correct(answer=completion.text) if right else Score.incorrect(answer=completion.text)

    def gold(self, prompt: Prompt) -> str:
        return self.reference(prompt).answer


def sums_with_a_calculator() -> ToolEnvironment:
    return ToolEnvironment(SumEnvironment(), [calculator])


def conversation_codec(*texts: str) -> Codec:
    known = [CALL, BROKEN_CALL, "What is 37*41? 1517", *texts] * 3
    return Codec(scratch_tokenizer(known, 400, template=CONVERSATION_TEMPLATE))


def save_calling_model(folder: Path) -> Path:
    """Write a model that calls the calculator, sometimes with a malformed call, and then writes a few digits."""
    codec = conversation_codec("train 3 12 test", "tools: calculator")
    model = scratch_qwen3(codec.tokenizer, hidden_size=64, layers=2, heads=2, intermediate_size=128, max_positions=256)
    env, draw = ToolEnvironment(LettersEnvironment(), [calculator]), keyed_random("calls")
    examples: list[Example] = []
    for index in range(60):

        def policy(messages: Sequence[Message]) -> str:
            if messages[-1].role == "tool":
                return "".join(draw.choice("0123456789") for _ in range(draw.randint(1, 6)))
            return BROKEN_CALL if draw.random() < 0.25 else CALL

        prompt = env.prompt_at("train", 3, index)
        examples += episode_examples(prompt, run_episode(env, prompt, policy))
    cold_start(model, codec, to_pairs(examples, codec), steps=80, batch_size=16, peak_learning_rate=3e-3)
    model.save_pretrained(folder)
    codec.tokenizer.save_pretrained(folder)
    return folder


class ScriptedEngine:
    """Writes the text that `write` gives for the conversation so far, as tokens that end with the end-of-sequence token.

    Args:
        codec: its tokenizer.
        write: gets the prompt's and the episode's text and the row's key, and returns the next turn.
    """

    positions = None

    def __init__(self, codec: Codec, write: Callable[[str, tuple[object, ...]], str]) -> None:
        self.codec, self.write = codec, write
        self.prompts: list[list[tuple[int, ...]]] = []
        """Of each call."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        self.prompts.append([tuple(ids) for ids in prompts])
        eos = min(self.codec.eos_ids)
        found: list[list[Any]] = [[None] * len(keys) for keys in row_keys]
        for p, keys in enumerate(row_keys):
            for g, key in enumerate(keys):
                ids = (*self.codec.encode_text(self.write(str(self.codec.tokenizer.decode(prompts[p])), key)), eos)
                ids = ids[:max_new_tokens]
                found[p][g] = Generated(ids, (-0.5,) * len(ids), "stop" if ids[-1] == eos else "length")
                on_finished(p, g, found[p][g])
        return found
