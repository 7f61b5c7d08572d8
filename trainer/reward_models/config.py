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
    """JSON Lines files with `prompt`, `completion` and `reward`, as `sample` makes them with keep best and at_most null."""
    per_prompt: int = Field(default=4, ge=1)
    """Most pairs a prompt, drawn by hash from all that differ."""
    least_gap: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    """By how much the rewards of a pair differ at least."""
    gap_as_margin: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Each pair's margin is this times the difference of its rewards."""
    seed: int = 0
    """Key of the choice of pairs."""


class TrainedOnDataFields(StepFields):
    """Settings of the stages that train a reward model on files."""

    data: tuple[Path, ...] = Field(min_length=1)
    """JSON Lines files to learn from."""
    held_out_data: tuple[Path, ...] = ()
    """Files of rows for evaluation alone; a share of `data` when left out."""
    held_out_share: float = Field(default=0.1, ge=0, lt=1)
    """Without held_out_data: share of the prompts that are held out, chosen by their hash: no prompt is on both sides."""
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
    """all weights, or the head alone on the features of the frozen model, which is a logistic regression."""
    reads: Reads = "answer"
    """What the model reads: `answer`, the text after the thinking, or `whole`; the environment reads the same."""
    centre: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the squared sum of a pair's outputs (2312.09244), which keeps outputs around 0; the paper has 0.01."""

    @model_validator(mode="after")
    def _head_alone(self) -> Self:
        if self.trained == "head" and self.gradient_checkpointing:
            raise ValueError("gradient_checkpointing saves nothing where the head alone is trained; leave it out")
        return self


class StepLabelsConfig(SamplerFields):
    """Settings of step labels without human annotation (Math-Shepherd, 2312.08935).

    The label of a step follows from the share of correct ones among completions that continue after it.
    """

    model: str
    """Local model directory or hub id of the policy, which writes the solutions and completes them from their steps."""
    prompts: int = Field(ge=1)
    """Prompts in all, by the sources' shares; a repeated one counts and is labelled once."""
    solutions: int = Field(default=1, ge=1)
    """Labelled solutions per prompt; other tasks teach more than other solutions of the same task."""
    rollouts: int = Field(default=8, ge=1)
    """Completions that are sampled from the end of each step but the last."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Of the sampler, for solutions and for completions from their steps."""
    split: Splitting | Ends = "paragraphs"
    """Where steps end, as in the environment `process`: a name, or texts that end a step."""


class PrmConfig(TrainedOnDataFields):
    """Settings of a process reward model: a decoder with a two-class head at the end of each step, as Qwen2.5-Math-PRM."""

    labels: Literal["hard", "soft"] = "hard"
    """Of roll-outs: `hard` is 1 where any was right, `soft` the share that was (2312.08935, section 3.3.2)."""
    system: str | None = None
    """System message of tasks that have none; the convention's own when left out. The environment takes the same option."""


NOT_DECIDING = FREE_FIELDS - {"steps"} | {"model", "data", "held_out_data", "device", "threads", "eval_every"}
"""Settings that a model's record leaves out: paths, which differ between machines, and what changes no weight."""


def deciding_settings(config: TrainedOnDataFields) -> dict[str, Any]:
    """Return the settings in `config` that affect the trained weights, as JSON data; they are stored in the model's record."""
    return config.model_dump(mode="json", exclude=NOT_DECIDING)
