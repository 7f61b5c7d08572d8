"""Settings of the stages that make reward models and their data. Unknown keys are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from verigym.envs.judge.judged_text import Reads
from verigym.envs.process.steps import Ends, Splitting
from verigym.trainer.checkpoints.store import FREE_FIELDS
from verigym.trainer.config.frozen import Frozen
from verigym.trainer.stages.config import SamplerFields, StepFields


class PairsConfig(Frozen):
    """Settings of the stage that makes preference pairs from graded completions: a better and a worse answer to one prompt."""

    output: Path
    """Folder of the stage."""
    data: tuple[Path, ...] = Field(min_length=1)
    """JSON Lines files with `prompt`, `completion` and `reward`, as stage `sample` writes with keep: best and at_most: null."""
    per_prompt: int = Field(default=4, ge=1)
    """Most pairs a prompt, drawn by hash from all that differ."""
    least_gap: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    """By how much the rewards of a pair differ at least."""
    gap_as_margin: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Factor: the margin of a pair is this factor times the difference of the pair's rewards."""
    seed: int = 0
    """Key of the choice of pairs."""


class TrainedOnDataFields(StepFields):
    """Settings of the stages that train a reward model on files."""

    data: tuple[Path, ...] = Field(min_length=1)
    """JSON Lines files to learn from."""
    held_out_data: tuple[Path, ...] = ()
    """Files of rows that are only for evaluation. When left out, a share of `data` is held out."""
    held_out_share: float = Field(default=0.1, ge=0, lt=1)
    """Without held_out_data: share of the prompts to hold out, chosen by their hash. All rows of a prompt are either trained on
    or held out."""
    held_out_count: int = Field(default=512, ge=1)
    """Most held-out rows in an evaluation."""
    batch_size: int = Field(default=32, ge=1)
    """Rows an update: pairs, or solutions."""
    epochs: float = Field(default=1.0, gt=0, le=1000)
    """Passes over the rows, if steps is left out; more than one or two soon overfit."""
    steps: int | None = Field(default=None, ge=1)
    """Updates; from epochs when left out."""

    @model_validator(mode="after")
    def _one_way_to_hold_out(self) -> Self:
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        if self.held_out_data and self.held_out_share != usual["held_out_share"]:
            raise ValueError("held_out_share is about data; with held_out_data leave it out")
        if self.steps is not None and self.epochs != usual["epochs"]:
            raise ValueError("steps and epochs both say how long to train; give one of them")
        return self


class RewardModelConfig(TrainedOnDataFields):
    """Settings of a Bradley-Terry reward model: a transformer with one output, trained on preference pairs."""

    trained: Literal["all", "head"] = "all"
    """`all`: all weights. `head`: only the head, on features of the frozen model, which is a logistic regression."""
    reads: Reads = "answer"
    """What the model reads: `answer`, the text after the thinking, or `whole`. Give the environment `reward_model`, which
    will load the model, the same option."""
    centre: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight in the loss of the squared sum of a pair's outputs, which keeps outputs around 0 (arXiv 2312.09244: 0.01)."""

    @model_validator(mode="after")
    def _head_alone(self) -> Self:
        if self.trained == "head" and self.gradient_checkpointing:
            raise ValueError("gradient_checkpointing saves nothing where the head alone is trained; leave it out")
        return self


class StepLabelsConfig(SamplerFields):
    """Settings of step labels without human annotation (Math-Shepherd, 2312.08935).

    The policy continues the solution after each step several times. The step's label follows from the share of these
    completions that are correct.
    """

    model: str
    """Local model directory or hub id of the policy, which writes the solutions and continues them after each step."""
    prompts: int = Field(ge=1)
    """Number of prompts, shared among the sources by weight. A prompt drawn twice counts twice, but is labelled only once."""
    solutions: int = Field(default=1, ge=1)
    """Labelled solutions per prompt. More prompts teach more than more solutions of the same prompt."""
    rollouts: int = Field(default=8, ge=1)
    """Completions sampled after each step. The last step needs none, because the solution is complete."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Sampling temperature, for the solutions and for their continuations."""
    split: Splitting | Ends = "paragraphs"
    """How solutions are split into steps, as in the environment `process`: a rule's name, or texts that end a step."""


class PrmConfig(TrainedOnDataFields):
    """Settings of a process reward model: a decoder with a two-class head at the end of each step, as Qwen2.5-Math-PRM."""

    labels: Literal["hard", "soft"] = "hard"
    """Label from a step's roll-outs: `hard` is 1 if any was right, `soft` the share that were (2312.08935, section 3.3.2)."""
    system: str | None = None
    """System message for tasks that have none. When left out, it is that of Qwen2.5-Math-PRM. Give the environment `process`,
    which will load the model, the same option."""


NOT_DECIDING = FREE_FIELDS - {"steps"} | {"model", "data", "held_out_data", "device", "threads", "eval_every"}
"""Settings that a model's record leaves out: paths, which differ between machines, and settings that change no weight."""


def deciding_settings(config: TrainedOnDataFields) -> dict[str, Any]:
    """Return the settings in `config` that affect the trained weights, as JSON data; they are stored in the model's record."""
    return config.model_dump(mode="json", exclude=NOT_DECIDING)
