"""Environments that the conformance kit must tell apart: judges that hang or hunger on some texts, and ways to draw tasks."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from sample_envs import Answer, ExactEnvironment, ExactOptions

from verigym.envs import BaseEnvironment, Completion, Prompt, Reference, Score


class PickyEnvironment(ExactEnvironment):
    """Hangs on texts of two hundred thousand characters."""

    name = "picky"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        while len(completion.text) > 150_000:
            time.sleep(1)
        return super().judge(prompt, reference, completion)


class GreedyEnvironment(ExactEnvironment):
    """Takes twenty gigabytes for a text with the digit 9."""

    name = "greedy"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if "9" in completion.text:
            return Score.incorrect(answer=str(len(bytearray(20 * 10**9))))
        return super().judge(prompt, reference, completion)


class TidyingReference(Reference):
    words: list[str]


class TidyingEnvironment(BaseEnvironment[TidyingReference, ExactOptions]):
    """Crosses out what was found: the next completion of the same prompt is judged by what is left."""

    name = "tidying"
    version = "1"
    reference_type = TidyingReference
    options_type = ExactOptions

    def judge(self, prompt: Prompt, reference: TidyingReference, completion: Completion) -> Score:
        if completion.text.strip() in reference.words:
            reference.words.remove(completion.text.strip())
            return Score.correct()
        return Score.incorrect()

    def gold(self, prompt: Prompt) -> str:
        return self.reference(prompt).words[0]

    def examples(self) -> list[Prompt]:
        return [self.prompt("Name a colour.", words=["red", "blue"])]


class StuckEnvironment(ExactEnvironment):
    name = "stuck"

    def prepare(self) -> None:
        time.sleep(600)


class TwofoldEnvironment(ExactEnvironment):
    """Raises in two ways."""

    name = "twofold"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if not completion.text:
            raise IndexError("nothing")
        if "\x00" in completion.text:
            raise ValueError("a null byte")
        return super().judge(prompt, reference, completion)


class HonestTasks(ExactEnvironment):
    """Tasks of its own, as they should be."""

    name = "honest"

    def examples(self) -> Sequence[Prompt]:
        return ()

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.say(split, random.Random(f"{split}/{seed}/{index}").randrange(10**9))

    def say(self, split: str, number: int) -> Prompt:
        return self.prompt(f"Say {number} ({split}).", answer=str(number))


class SeedlessTasks(HonestTasks):
    name = "seedless"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return super().prompt_at(split, 0, index)


class AddedTasks(HonestTasks):
    name = "added"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return super().prompt_at(split, 0, seed + index)


class LonelyTasks(HonestTasks):
    name = "lonely"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return super().prompt_at(split, 0, 0)


class RandomTasks(HonestTasks):
    name = "random-tasks"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.say(split, random.randrange(10**9))


class CountingTasks(HonestTasks):
    """Draws from one generator, call by call."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(0)

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.say(split, self.rng.randrange(10**9))


class HashTasks(HonestTasks):
    """Python's own hash of a text differs by process."""

    name = "hash"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.say(split, hash((split, seed, index)) % 10**9)


class SharedTasks(HonestTasks):
    """The same tasks for every split."""

    name = "shared"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return super().prompt_at("train", seed, index)


class OneSplitTasks(HonestTasks):
    name = "one-split"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        if split != "train":
            raise ValueError(f"no split {split!r}")
        return super().prompt_at(split, seed, index)


class HangingTasks(HonestTasks):
    """Draws well, but never comes to the fortieth task."""

    name = "hanging-tasks"

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        while index == 40:
            time.sleep(1)
        return super().prompt_at(split, seed, index)
