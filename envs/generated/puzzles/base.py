r"""Base classes of puzzles with difficulty levels. Numbers are judged as in `math`, texts by a rule of each puzzle."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

from verigym.envs.contract.base import Options
from verigym.envs.contract.generated import GeneratedTasks
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.generated.families import ProceduralEnvironment, ProceduralOptions
from verigym.envs.match.where import find_answer

LEVELS = 5
LONGEST = 2000


class Levelled(BaseModel):
    """What every family lets one choose."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    level: int = Field(default=1, ge=1, le=LEVELS)
    """How hard the tasks are, 1 to 5."""


class NumberOptions(Levelled, ProceduralOptions):
    """Options of puzzles whose answers are numbers: those of `math`, and the level."""


class TextOptions(Levelled, Options):
    """Options of families whose answers are texts."""

    skip_thinking: bool = True
    """Whether only the text after the last `</think>` is judged. A completion whose thinking never ends then has no answer."""


class TextReference(Reference):
    """What an answer is compared with."""

    answer: str = Field(min_length=1)
    """The right answer."""


def at(level: int, values: Sequence[int]) -> int:
    """Return the one of the five `values` that belongs to `level` (1 to 5)."""
    return values[level - 1]


class NumberPuzzle(ProceduralEnvironment):
    """Base class of puzzles whose answers are numbers.

    The answers are judged as in `math`, but sums and unreduced fractions are refused.
    """

    options_type = NumberOptions

    @property
    def level(self) -> int:
        """The level asked for."""
        return cast(NumberOptions, self.options).level

    def stream(self) -> str:
        """Return the key of this puzzle's random draws: its name and level, so that two levels have independent tasks."""
        return f"{self.name}/level {self.level}"

    def examples(self) -> Sequence[Prompt]:
        """Return a few tasks of this puzzle, instead of the examples of `math`."""
        return tuple(self.prompt_at("train", 0, index) for index in range(8))


R = TypeVar("R", bound=Reference)
Opts = TypeVar("Opts", bound=TextOptions)

_WRAPPED = re.compile(r"\\(?:text|mathrm|texttt|textbf|mathbf|textit|mathtt)\{([^{}]*)\}")
_SPACES = re.compile(r"\\[,;: ]|\\q?quad(?![A-Za-z])|~")
_ARROWS = re.compile(r"\\(?:to|(?:long)?rightarrow|(?:Long)?Rightarrow|implies)(?![A-Za-z])|[\u2192\u21d2\u27f6]")
_DASHES = re.compile(r"[\u2010-\u2015\u2212]|\{-\}|-{2,3}")


def plain(text: str) -> str:
    r"""Return `text` without LaTeX markup (`$`, `\text{...}`, spaces, arrows), with one kind of dash, and no full stop."""
    text = _WRAPPED.sub(r"\1", text.strip().strip("$"))
    text = _DASHES.sub("-", _ARROWS.sub(" -> ", _SPACES.sub(" ", text))).strip()
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


class TextPuzzle(GeneratedTasks[R, Opts]):
    """Base class of puzzles whose answers are texts. A subclass writes `make` and `problem`."""

    @property
    def level(self) -> int:
        """The level asked for."""
        return self.options.level

    def stream(self) -> str:
        """Return the key of this puzzle's random draws: its name and level, so that two levels have independent tasks."""
        return f"{self.name}/level {self.level}"

    @abstractmethod
    def problem(self, reference: R, answer: str) -> str:
        """Return in words what is wrong with `answer`, or an empty string if it is right.

        `answer` has at most `LONGEST` characters.
        """

    def gold(self, prompt: Prompt) -> str | None:
        """Return the reference's answer in a box, or None if the reference has no answer."""
        answer: Any = getattr(self.reference(prompt), "answer", None)
        return None if answer is None else rf"\boxed{{{answer}}}"

    def judge(self, prompt: Prompt, reference: R, completion: Completion) -> Score:
        """Return the score of the last box, checked by `problem`. The whole content of the box must be the answer."""
        text = strip_thinking(completion.text) if self.options.skip_thinking else completion.text
        found, how = find_answer(text, ("boxed",)) if text is not None else (None, "the thinking never ends")
        if not found:
            if completion.cut_off:
                return Score.truncated(reason=f"cut off by the token limit: {how}")
            return Score.no_answer(reason=how if found is None else "the box is empty")
        if len(found) > LONGEST:
            return Score.incorrect(answer=found[:LONGEST], reason=f"the answer is longer than {LONGEST} characters")
        problem = self.problem(reference, plain(found))
        return Score.incorrect(answer=found, reason=problem) if problem else Score.correct(answer=found, reason="right")
