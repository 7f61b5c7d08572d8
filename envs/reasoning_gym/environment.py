r"""The `reasoning_gym` environment: every task of the reasoning-gym library (2505.24760), judged more strictly than there.

The library gives partial rewards for an answer that contains or is close to the right one, and for its form. Here an answer is
right or gets nothing. `tasks.py` says how each task is judged. The library makes its items in a separate process, so this
process never imports it. Each seed is drawn from a hash, so a task is the same in every process.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, JsonValue, field_validator

from verigym.envs.contract.base import Options
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.generated import GeneratedTasks, Made
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, canonical_json, sha256_hex
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.generated.puzzles.base import plain
from verigym.envs.match.where import find_answer
from verigym.envs.reasoning_gym import client
from verigym.envs.reasoning_gym.comparing import KINDS
from verigym.envs.reasoning_gym.tasks import FIXED, NOTES, SCORER, find_task

LONGEST = 10_000
EXAMPLES = 4
_TRIES = 100
_ASKED = {"boxed": r"Put the final answer, and nothing else, in \boxed{}.", "tag": "Put the final answer in <answer></answer>."}


class GymOptions(Options):
    """Which task, and where the answer stands."""

    task: str = "chain_sum"
    """Name of the task, as the library has it."""
    config: Mapping[str, JsonValue] = Field(default_factory=dict)
    """The task's own settings, as the library has them, without `seed` and `size`."""
    answer_in: Literal["boxed", "tag"] = "boxed"
    r"""Where in the completion the answer is read: the last `\boxed{}`, or the last `<answer>...</answer>` (`tag`). The
    question ends with a sentence that asks for this form."""
    skip_thinking: bool = True
    """Whether only the text after the last `</think>` is judged. A completion whose thinking never ends then has no answer."""
    timeout_s: float = Field(10.0, gt=0, allow_inf_nan=False)
    """CPU seconds that the library's scorer may take for an answer."""

    @field_validator("task")
    @classmethod
    def _supported(cls, value: str) -> str:
        try:
            find_task(value)
        except UsageError as problem:
            raise ValueError(str(problem)) from None
        return value

    @field_validator("config")
    @classmethod
    def _no_seed(cls, value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        taken = sorted({"seed", "size"} & value.keys())
        if taken:
            raise ValueError(f"{taken[0]!r} is set by prompt_at(split, seed, index); leave it out")
        return value


class GymReference(Reference):
    """What an answer is compared with."""

    task: str
    """Name of the task."""
    answer: str = Field(min_length=1)
    """The right answer, or one of them."""
    seed: int | None = None
    """The seed from which the library makes the item, or None. Tasks with many right answers cannot be judged without it."""
    config: Mapping[str, JsonValue] = Field(default_factory=dict)
    """The settings that the item was made with."""
    question: str = ""
    """First 16 hex digits of the sha256 of the library's question, to notice a library version that asks another question."""


class ReasoningGymEnvironment(GeneratedTasks[GymReference, GymOptions]):
    """Tasks of reasoning-gym."""

    name = "reasoning_gym"
    version = "2"
    reference_type = GymReference
    options_type = GymOptions

    def check(self) -> None:
        """Raise EnvironmentFailure when the library is not installed."""
        client.ready()

    def prepare(self) -> None:
        """Start the library's worker where judging needs it."""
        if find_task(self.options.task).how == SCORER:
            client.ready()

    def examples(self) -> Sequence[Prompt]:
        """Return a few items of the task."""
        return tuple(self.prompt_at("train", 0, index) for index in range(EXAMPLES))

    def stream(self) -> str:
        """Return the environment's name, task and settings, so that the items of two tasks are drawn independently."""
        return f"{self.name}/{self.options.task}/{sha256_hex(canonical_json(self._config()))[:16]}"

    def make(self, rng: random.Random) -> Made:
        """Return an item from the library. An item without a right answer is drawn again.

        Raises:
            UsageError: the library refuses the config.
            EnvironmentFailure: the library is not installed, or exceeded a limit.
        """
        task, config = self.options.task, self._config()
        for _ in range(_TRIES):
            seed = rng.getrandbits(31)
            item = client.make(task, config, seed)
            if item.answer.strip():
                break
        else:
            raise EnvironmentFailure("gold_invalid", f"reasoning-gym made no item of {task!r} that has a right answer")
        asked = " ".join(filter(None, (NOTES.get(task), _ASKED[self.options.answer_in])))
        facts = {"task": task, "seed": seed, "config": config, "question": client.digest(item.question)}
        return Made(f"{item.question.strip()}\n\n{asked}", item.answer, facts=facts)

    def _config(self) -> dict[str, JsonValue]:
        return {**self.options.config, **FIXED.get(self.options.task, {})}

    def gold(self, prompt: Prompt) -> str | None:
        """Return the reference's answer where the options want it."""
        answer = self.reference(prompt).answer
        return rf"\boxed{{{answer}}}" if self.options.answer_in == "boxed" else f"<answer>{answer}</answer>"

    def judge(self, prompt: Prompt, reference: GymReference, completion: Completion) -> Score:
        """Return the score of the extracted answer, by comparison with the gold or by the library's scorer."""
        text = strip_thinking(completion.text) if self.options.skip_thinking else completion.text
        places = (self.options.answer_in,)
        found, how = find_answer(text, places) if text is not None else (None, "the thinking never ends")
        if not found:
            if completion.cut_off:
                return Score.truncated(reason=f"cut off by the token limit: {how}")
            return Score.no_answer(reason=how if found is None else "the answer is left empty")
        if len(found) > LONGEST:
            return Score.incorrect(answer=found[:100], reason=f"the answer is longer than {LONGEST} characters")
        task = find_task(reference.task)
        if task.how != SCORER:
            right = any(KINDS[task.how](given, reference.answer) for given in dict.fromkeys((found, plain(found))))
            return _verdict(right, found, "right" if right else "another answer than the right one")
        given = next((text for text in (found, plain(found)) if task.shape and task.shape.fullmatch(text)), None)
        if given is None:
            return Score.incorrect(answer=found, reason="the answer has not the form asked for")
        return self._scored(reference, given)

    def _scored(self, reference: GymReference, answer: str) -> Score:
        if reference.seed is None:
            raise EnvironmentFailure(
                "gold_invalid", f"task {reference.task!r} has many right answers, so its reference needs the library's seed"
            )
        item = (reference.task, reference.config, reference.seed, reference.question)
        try:
            paid = client.score(*item, answer, self.options.timeout_s)
        except client.SymbolicLimit as limit:
            try:
                client.score(*item, reference.answer, self.options.timeout_s)
            except client.SymbolicLimit as ours:
                raise EnvironmentFailure("timeout", f"reasoning-gym cannot judge its own answer: {ours}") from None
            return Score.limit(answer=answer, reason=str(limit))
        return _verdict(paid == 1.0, answer, f"reasoning-gym pays {paid:.3g}")


def _verdict(right: bool, answer: str, reason: str) -> Score:
    return Score.correct(answer=answer, reason=reason) if right else Score.incorrect(answer=answer, reason=reason)
