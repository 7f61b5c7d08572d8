"""Tasks of which some are long, for the tests of what is left out."""

from __future__ import annotations

from letters import LettersEnvironment, Nothing

from verigym.envs import Completion, Options, Prompt, Score


class LongOptions(Options):
    every: int = 10
    """Each task whose number is a multiple of this is long."""


class LongPrompts(LettersEnvironment):
    """The letters' tasks; one in so many has 300 letters. Every text is right, so that rejection sampling keeps some."""

    name = "long"
    options_type = LongOptions

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        long = index % self.options.every == 0  # type: ignore[attr-defined]
        return self.prompt(f"{split} {index} " + "a b " * 150 * long)

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        return Score.correct()
