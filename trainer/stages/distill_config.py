"""What the stages that distil may be told. Distilling off-policy has none: `sample` with the teacher, then `sft`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.stages.config import ExampleFields, FitFields


class LogitConfig(ExampleFields):
    """Logit distillation: the teacher's whole distribution at each completion token of given examples, such as its samples."""

    teacher: str
    """Local model directory or hub id; its tokenizer must be the student's."""
    direction: Literal["forward", "reverse"] = "forward"
    """forward is KL(teacher || student), reverse KL(student || teacher)."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """Both models' logits are divided by it."""


class OnPolicyConfig(FitFields):
    """On-policy distillation: the student samples, and each of its tokens is graded by the teacher's reverse KL."""

    teacher: str
    """Local model directory or hub id; its tokenizer must be the student's."""
    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    """Where prompts come from; their environments grade held-out answers for the metrics, and nothing that is learnt from."""
    steps: int = Field(default=100, ge=1)
    """Updates."""
    prompts_per_step: int = Field(default=16, ge=1)
    """Prompts a step."""
    samples: int = Field(default=4, ge=1)
    """Completions a prompt."""
    divergence: Literal["sampled", "full"] = "sampled"
    """sampled takes the token's own log-ratio as its advantage; full the exact reverse KL over the vocabulary at each place."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Of the sampler; both models are compared at it."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Longer prompts are passed over and counted."""
    max_left_out: float = Field(default=0.01, ge=0, le=1)
    """Most prompts of a source that may be longer than max_prompt_tokens, as a share; more is an error."""
    max_new_tokens: int = Field(default=512, ge=1)
    """Most tokens of a completion."""
    generation_rows: int = Field(default=512, ge=1)
    """Most completions decoded at a time."""
    eval_prompts: int = Field(default=64, ge=1)
    """Held-out prompts a source, answered greedily for the accuracy."""
    workers: int | None = Field(default=None, ge=0)
    """Grading processes; one a core by default. 0 grades in this process, without protection."""

    def as_run(self) -> TrainConfig:
        """Return the training run that would sample like this, for what builds engines, tasks and graders."""
        names = ("model", "output", "sources", "seed", "device", "dtype", "threads", "workers", "eval_prompts", "max_left_out")
        sizes = ("prompts_per_step", "max_prompt_tokens", "max_new_tokens", "generation_rows", "temperature")
        fields: dict[str, Any] = {name: getattr(self, name) for name in (*names, *sizes)}
        return TrainConfig(**fields)
