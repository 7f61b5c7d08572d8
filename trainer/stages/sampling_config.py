"""What stages that sample may be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from verigym.datasets_cfg.load import load_config
from verigym.envs.registry import origin
from verigym.trainer.config.checks import ENGINE_RULES, refuse_ineffective
from verigym.trainer.config.engine import EngineFields
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.stages.config import StageFields
from verigym.trainer.stages.keep import Condition, condition


class SamplerFields(StageFields, EngineFields):
    """What is asked, of which engine, and how it is graded."""

    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    """The tasks, as in a training run: environments that write their own, or data sets."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Longer prompts are passed over and counted."""
    max_left_out: float = Field(default=0.01, ge=0, le=1)
    """Most prompts of a source that may be longer than max_prompt_tokens, as a share; more is an error."""
    max_new_tokens: int = Field(default=512, ge=1)
    """Most tokens of a completion."""
    generation_rows: int = Field(default=512, ge=1)
    """Most completions decoded at a time; bounds the memory of the KV cache."""
    prompts_at_a_time: int = Field(default=32, ge=1)
    """Prompts that are sampled, graded and then written; a stopped stage goes on after the last ones."""
    workers: int | None = Field(default=None, ge=0)
    """Grading processes; one a core by default. 0 grades in this process, without protection."""
    grade_timeout_s: float = Field(default=30.0, gt=0)
    """Wall time of one verdict."""
    grade_memory_mb: int = Field(default=4096, ge=64)
    """Address space of one grading process."""

    @model_validator(mode="after")
    def _engine_settings_have_an_effect(self) -> Self:
        refuse_ineffective(self, ENGINE_RULES)
        return self

    def as_run(self, model: str) -> TrainConfig:
        """Return the training run that would sample like this, for what builds engines, tasks and graders."""
        # Training samples at temperatures above 0 alone; a stage gives its own with each call.
        shared = self.model_fields_set & set(TrainConfig.model_fields) - {"temperature"}
        fields: dict[str, Any] = {name: getattr(self, name) for name in shared}
        fields.update(model=model, output=self.output, sources=self.sources, prompts_per_step=1)
        for name in ("max_prompt_tokens", "max_new_tokens", "generation_rows"):
            fields[name] = getattr(self, name)
        return TrainConfig(**fields)


class SampleConfig(SamplerFields):
    """Rejection sampling: completions are generated and graded, and those that a rule keeps become a data set."""

    model: str
    """Local model directory or hub id: the policy, or a teacher."""
    prompts: int = Field(ge=1)
    """How many prompts in all, by the sources' shares."""
    samples: int = Field(default=4, ge=1)
    """Completions a prompt."""
    temperature: float = Field(default=1.0, ge=0, le=10)
    """Of the sampler; 0 is greedy."""
    keep: Literal["best", "all_correct", "shortest_correct", "longest_correct"] = "shortest_correct"
    """Which completions may be kept, the first choice first; best goes by the reward, right or wrong."""
    keep_if: Mapping[str, str] = {}
    """What a part's reward or component must be besides: {language: ">= 0.95", paragraphs/longest: "<= 300"}. Every source has
    the part, if need be with weight 0 in `add`."""
    at_most: int | None = Field(default=1, ge=1)
    """Completions that are kept of a prompt; null for no bound."""
    least_reward: float | None = None
    """What the reward must be at least; none when left out."""

    @property
    def conditions(self) -> list[Condition]:
        """What `keep_if` says."""
        return [condition(name, text) for name, text in self.keep_if.items()]

    @model_validator(mode="after")
    def _parts_are_known(self) -> Self:
        for wanted in self.conditions:
            part = wanted.name.partition("/")[0]
            for source in self.sources:
                known = part_names(source)
                if part not in known:
                    raise ValueError(
                        f"keep_if: source {source.label!r} has no part {part!r}; its parts are "
                        f"{', '.join(known)}; add it, with weight 0 if it is not to count: add: {{{part}: {{weight: 0}}}}"
                    )
        return self


def part_names(source: SourceConfig) -> list[str]:
    """Return the names of a source's parts: what grades it, what is added, its gate.

    Raises:
        UsageError: its data set is unknown.
    """
    own = source.environment or ""
    if source.dataset is not None:
        own = load_config(source.dataset).environment
    if source.graded_by is not None:
        own = source.graded_by.environment
    own = origin(own).name if ":" in own else own
    return [own, *source.add, *(["format"] if source.format is not None else [])]
