"""Models after the cold start: examples of episodes, and of answers without a tool."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verigym.envs import Message, Prompt, ToolEnvironment, load, run_episode
from verigym.tools import calculator
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import CONVERSATION_TEMPLATE, scratch_qwen3, scratch_tokenizer
from verigym.trainer.rng import keyed_random
from verigym.trainer.stages.examples import Example, episode_examples, to_pairs
from verigym.trainer.stages.quickstart import cold_start

DIGITS = 3
NUMBERS, GUESSES = 8, 3
MALFORMED = 1 / 3
EPISODES = 3000
"""Of the cold start, which takes them several times."""
SUMS = {"digits": DIGITS, "operations": "+"}
GUESSING = {"numbers": NUMBERS, "guesses": GUESSES}
ONE_TURN = ("bases", {})


def sums_with_calculator() -> ToolEnvironment:
    """The sums, with the tool."""
    return ToolEnvironment(load("arithmetic", **SUMS), [calculator])


def called(prompt: Prompt, rng: random.Random) -> Example | list[Example]:
    """Return the turns of an episode that calls the calculator; some calls are malformed, and then the answer is a guess."""
    question = prompt.messages[-1].content
    call = json.dumps({"name": "calculator", "arguments": {"expression": question.removesuffix("=?")}})
    broken = rng.random() < MALFORMED

    def policy(messages: Sequence[Message]) -> str:
        last = messages[-1]
        if last.role != "tool":
            return f"<tool_call>{call.replace(':', '', 1) if broken else call}</tool_call>"
        result = str(rng.randrange(10 ** (DIGITS + 1))) if last.content.startswith("Error") else last.content
        return rf"\boxed{{{result}}}"

    return episode_examples(prompt, run_episode(sums_with_calculator(), prompt, policy))


def answered(prompt: Prompt, env: Any) -> list[Example]:
    """Return the example of an answer without any tool."""
    return [Example(prompt.messages, str(env.gold(prompt)))]


def examples(names: Sequence[str], count: int, seed: int) -> list[Example]:
    """Return examples of these kinds in turn: calculator, answers, guessing, one_turn."""
    found: list[Example] = []
    rng = keyed_random("examples", seed)
    sums, plain = sums_with_calculator(), load("arithmetic", **SUMS)
    guessing, one_turn = load("number_guessing", **GUESSING), load(ONE_TURN[0], **ONE_TURN[1])
    for index in range(count):
        kind = names[index % len(names)]
        if kind == "calculator":
            found += called(sums.prompt_at("train", seed, index), rng)
        elif kind == "answers":
            found += answered(plain.prompt_at("train", seed, index), plain)
        elif kind == "guessing":
            prompt = guessing.prompt_at("train", seed, index)
            found += episode_examples(prompt, guessing.demonstrate(prompt))
        else:
            prompt, text = one_turn.demonstration("train", seed, index)
            found.append(Example(prompt.messages, text))
    rng.shuffle(found)
    return found


def start(folder: Path, names: Sequence[str], seed: int, steps: int, batch: int = 32) -> None:
    """Make a model that has seen such examples, unless the folder exists."""
    if folder.exists():
        return
    shown = examples(names, EPISODES, seed)
    texts = ["\n".join([*(message.content for message in one.messages), one.completion]) for one in shown[:1200]]
    tokenizer = scratch_tokenizer(texts, template=CONVERSATION_TEMPLATE)
    model = scratch_qwen3(tokenizer, hidden_size=128, layers=2, intermediate_size=256, seed=seed)
    codec = Codec(tokenizer, model.generation_config)
    cold_start(model, codec, to_pairs(shown, codec), steps=steps, batch_size=batch, peak_learning_rate=3e-3)
    partial = folder.with_name(folder.name + ".partial")
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)
