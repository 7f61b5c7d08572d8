"""The `reward_model` environment: the reward is the output of a Bradley-Terry head, mapped to a declared range."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score
from verigym.envs.judge.judged_text import Cut, Reads, read
from verigym.envs.model_fingerprint import fingerprint, named_after
from verigym.envs.reward_model.model import Device, Dtype, RewardModel, loaded
from verigym.envs.trained_options import refuse_other_options


class RewardModelReference(Reference):
    """Nothing: the model compares with nothing."""


class RewardModelOptions(Options):
    """Options for the model, its input, and the conversion of its output into a reward."""

    model: str = ""
    """Folder or hub name of a sequence-classification model with one output. Must be given."""
    revision: str | None = None
    """Branch, tag or commit on the hub; a commit makes the verdicts repeatable."""
    reads: Reads = "answer"
    """What the model reads. `answer`: the text after the thinking (as in DeepSeek-R1's helpfulness reward); `whole`: all text
    (as in its harmlessness reward)."""
    cut_off: Cut = "floor"
    """For a completion that the token limit has cut off. `floor`: it gets the floor; `judge`: it is judged as it stands."""
    max_chars: int = Field(200_000, ge=1)
    """A longer text is not judged: the status is limit."""
    max_tokens: int = Field(4096, ge=1)
    """Maximum number of input tokens, prompt and template included. The model's own maximum of positions also applies."""
    too_long: Literal["limit", "head", "tail"] = "limit"
    """What happens to a text that is too long for `max_tokens`. `limit`: it is not judged and gets the status limit; `head`:
    only its first tokens are judged; `tail`: only its last."""
    normalise: Literal["sigmoid", "linear"] = "sigmoid"
    """How the model's output becomes a reward, with z = (output - mean) / std. `sigmoid`: 1 / (1 + e^-z), from 0 to 1;
    `linear`: z, clipped to -clip..clip."""
    mean: float = Field(0.0, allow_inf_nan=False)
    """Subtracted from the output. Measure it on answers of your own policy."""
    std: float = Field(1.0, gt=0, allow_inf_nan=False)
    """The output is divided by it."""
    clip: float = Field(5.0, gt=0, allow_inf_nan=False)
    """Bound of a linear reward."""
    batch_size: int = Field(8, ge=1)
    """Most texts in a forward pass of `score_group`."""
    device: Device = "auto"
    """`auto`: cuda, else mps, else cpu."""
    dtype: Dtype = "auto"
    """`auto`: float32 on cpu, else bfloat16."""

    @model_validator(mode="after")
    def _one_path(self) -> Self:
        if self.model != self.model.strip():
            raise ValueError("model has spaces around it")
        return self


class _Row(NamedTuple):
    tokens: list[int]
    cut: int
    """Tokens of the text that were left out."""


class RewardModelEnvironment(BaseEnvironment[RewardModelReference, RewardModelOptions]):
    """Grades by a reward model's output."""

    name = "reward_model"
    version = "1"
    reference_type = RewardModelReference
    options_type = RewardModelOptions
    grades_groups = True
    # What a text is worth is the model's opinion, which no text must win and none must lose.
    expected_verdicts = ExpectedVerdicts(gold="free", echo="free", garbage="free", hacks="free")

    @property
    def resources(self) -> tuple[str, ...]:
        """Return what a cluster node needs to grade this environment: `gpu` if `device` names one."""
        return ("gpu",) if self.options.device == "cuda" else ()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._weights = fingerprint(self.options.model)
        self._agreed = False
        self.grader = named_after(self.grader, self._weights)
        if self.options.normalise == "linear":
            self.reward_range = (-self.options.clip, self.options.clip)  # type: ignore[misc]

    def check(self) -> None:
        """Load the model."""
        self._model()

    def prepare(self) -> None:
        """Load the model. Where that fails, each verdict will say so."""
        with contextlib.suppress(EnvironmentFailure):
            self._model()

    def examples(self) -> Sequence[Prompt]:
        """Return a task that can be answered well or badly."""
        return (self.prompt("Why is the sky blue? Two sentences."),)

    def judge(self, prompt: Prompt, reference: RewardModelReference, completion: Completion) -> Score:
        """Score one completion."""
        row = self._row(prompt, completion)
        return row if isinstance(row, Score) else self._worth(row, self._values([row])[0])

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        """Return one score for each of `completions`, computed in batches.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        self.reference(prompt)
        start = time.perf_counter()
        candidates = [Completion.of(completion) for completion in completions]
        try:
            rows = [self._row(prompt, candidate) for candidate in candidates]
            values = iter(self._values([row for row in rows if not isinstance(row, Score)]))
            scores = [row if isinstance(row, Score) else self._worth(row, next(values)) for row in rows]
        except EnvironmentFailure as failure:
            scores = [failure.score() for _ in candidates]
        except Exception:  # one text of the batch, or its size; one at a time the blame rule finds out
            return [self.score(prompt, candidate) for candidate in candidates]
        seconds = (time.perf_counter() - start) / max(len(scores), 1)
        return [score.model_copy(update={"grader": self.grader, "seconds": seconds}) for score in scores]

    def _model(self) -> RewardModel:
        if not self._agreed:
            refuse_other_options(self.options.model, self.options)
            self._agreed = True
        return loaded(self.options.model, self.options.revision, self.options.device, self.options.dtype, self._weights)

    def _values(self, rows: Sequence[_Row]) -> list[float]:
        return self._model().values([row.tokens for row in rows], self.options.batch_size)

    def _row(self, prompt: Prompt, completion: Completion) -> _Row | Score:
        """Return the tokens the model gets, or the verdict where there is nothing to judge."""
        options, floor = self.options, self.reward_range[0]
        text = read(completion, options.reads, options.cut_off, options.max_chars, floor)
        if isinstance(text, Score):
            return text
        model = self._model()
        framed = model.frame(prompt.messages, text, whole=options.reads == "whole")
        most = min(options.max_tokens, model.max_positions)
        room = most - framed.frame
        if room < 1:
            message = f"reward_model: the prompt alone has {framed.frame} tokens, and the model gets {most} (max_tokens)"
            raise EnvironmentFailure("gold_invalid", message)
        cut = max(len(framed.text) - room, 0)
        if cut and options.too_long == "limit":
            return Score.limit(
                reward=floor, reason=f"{len(framed.text)} tokens to judge where {room} fit (max_tokens, too_long='limit')"
            )
        kept = framed.text[cut:] if options.too_long == "tail" else framed.text[: len(framed.text) - cut]
        return _Row([*framed.before, *kept, *framed.after], cut)

    def _worth(self, row: _Row, value: float) -> Score:
        """Return the score of a model's output.

        Raises:
            ArithmeticError: the output is no number, which a control shows to be the model's fault or the text's.
        """
        if not math.isfinite(value):
            raise ArithmeticError(f"the reward model's output is {value}")
        options = self.options
        z = (value - options.mean) / options.std
        reward = _sigmoid(z) if options.normalise == "sigmoid" else min(max(z, -options.clip), options.clip)
        reason = f"the model's output is {value:.4g}"
        if row.cut:
            reason += f"; {row.cut} tokens were left out at the {'start' if options.too_long == 'tail' else 'end'}"
        score = Score.partial(reward, reason=reason)
        return score.model_copy(
            update={"components": {"output": value, "tokens": float(len(row.tokens)), "cut_tokens": float(row.cut)}}
        )


def _sigmoid(z: float) -> float:
    """Return 1 / (1 + e^-z) without overflow."""
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(max(z, -700.0)) / (1.0 + math.exp(max(z, -700.0)))
