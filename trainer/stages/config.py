"""What the stages that train may be told. Unknown keys are refused; a sentence stands under each field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from verigym.trainer.config.checks import RUN_RULES, Rule, refuse_ineffective
from verigym.trainer.config.frozen import Frozen
from verigym.trainer.config.memory import MemoryFields, OptimizerFields
from verigym.trainer.config.monitoring import LoggerName
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.config.synonyms import refuse_foreign


class StageFields(Frozen):
    """What all stages have."""

    output: Path
    """Folder of the stage. One that finds its own work here goes on with it."""
    seed: int = 0
    """Key of all randomness."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes CUDA where there is one."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """bf16 computes in bfloat16 over fp32 weights and optimizer state."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads; torch's own choice when left out. Exact resume needs the same number."""

    @model_validator(mode="before")
    @classmethod
    def _names_of_here(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping):
            refuse_foreign(fields, cls.model_fields)
        return fields


FIT_RULES: tuple[Rule, ...] = tuple(rule for rule in RUN_RULES if rule[0] == ("log_project",))


class StepFields(StageFields, OptimizerFields):
    """What all stages that train in steps have."""

    model: str
    """Local model directory or hub id of a transformers causal language model."""

    learning_rate: float = Field(default=1e-5, gt=0, le=1)
    """Peak of the schedule."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """After the warm-up: stay, or fall to 0 at the last step."""
    warmup_steps: int = Field(default=10, ge=0)
    """Steps of linear rise from 0."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """AdamW's decoupled weight decay."""
    adam_betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's decay rates of both moments, each in [0, 1)."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient clipping by global norm."""

    max_tokens: int = Field(default=2048, ge=2)
    """Most tokens of a prompt and its completion; longer examples are left out and counted."""
    max_left_out: float = Field(default=0.01, ge=0, le=1)
    """Most examples that may be longer than max_tokens, as a share; more is an error."""
    micro_batch_tokens: int = Field(default=8192, ge=1)
    """Most tokens of a forward and backward pass, with padding."""
    gradient_checkpointing: bool = False
    """Computes each layer again in the backward pass rather than keep its activations."""

    eval_every: int = Field(default=50, ge=0)
    """Steps between looks at the held-out examples; 0 for none. The first and the last step always have one."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Steps between checkpoints; the last step always gets one."""
    keep_checkpoints: int = Field(default=1, ge=1)
    """Older ones are deleted."""
    loggers: tuple[LoggerName, ...] = ("tensorboard",)
    """Where numbers go besides metrics.jsonl: any of tensorboard, wandb and trackio."""
    log_project: str = Field(default="verigym", min_length=1)
    """Project name for wandb and trackio."""

    @model_validator(mode="after")
    def _betas_are_shares(self) -> Self:
        if not all(0 <= beta < 1 for beta in self.adam_betas):
            raise ValueError(f"adam_betas are {self.adam_betas}; each must be in [0, 1)")
        refuse_ineffective(self, FIT_RULES)
        return self


class FitFields(StepFields, MemoryFields):
    """What the stages that train a policy in steps have. Adapters and 8-bit moments are those of a GRPO run."""

    pack_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a row of packed examples; twice the longest of a batch when left out."""
    logprob_chunk: int | None = Field(default=None, ge=1)
    """Tokens whose logits are in memory at a time; chosen by the vocabulary when left out."""

    @model_validator(mode="after")
    def _fit_is_consistent(self) -> Self:
        if self.lora_base != "fp32" and self.dtype != "bf16":
            raise ValueError(f"lora_base {self.lora_base} computes in bfloat16; set dtype to bf16, or lora_base to fp32")
        return self


EXAMPLE_RULES: tuple[Rule, ...] = (
    (("demonstration_count",), lambda c: c.demonstrations, "is about demonstrations; name environments in `demonstrations`"),
    (("held_out_share",), lambda c: c.data, "is a share of the prompts in data; name files in `data`"),
    (("epochs",), lambda c: c.steps is None, "gives the number of updates where steps does not; leave steps out"),
)


class ExampleFields(FitFields):
    """What the stages that learn from examples have."""

    data: tuple[Path, ...] = ()
    """JSON Lines files with `prompt` and `completion`, or with `messages` whose last is the assistant's."""
    demonstrations: tuple[SourceConfig, ...] = ()
    """Environments that write worked solutions, for a cold start."""
    demonstration_count: int = Field(default=1000, ge=1)
    """With demonstrations: how many in all."""
    batch_size: int = Field(default=32, ge=1)
    """Examples an update."""
    epochs: float = Field(default=1.0, gt=0, le=1000)
    """Times that the examples are gone over, where steps is left out."""
    steps: int | None = Field(default=None, ge=1)
    """Updates; from epochs when left out."""
    held_out_share: float = Field(default=0.02, ge=0, lt=1)
    """Share of the prompts in data that are held out, chosen by their hash: no prompt is on both sides."""
    held_out_count: int = Field(default=64, ge=1)
    """Most held-out examples that are looked at; as many demonstrations are made of the test split."""

    @model_validator(mode="after")
    def _has_examples(self) -> Self:
        if not self.data and not self.demonstrations:
            raise ValueError("nothing to learn from; give `data`, `demonstrations` or both")
        refuse_ineffective(self, EXAMPLE_RULES)
        for source in self.demonstrations:
            if source.environment is None:
                raise ValueError("demonstrations are written by an environment; a data set's rows go into `data`")
        return self


class SftConfig(ExampleFields):
    """Supervised fine-tuning: the mean negative log-likelihood of the completions' tokens."""
