"""Settings of the stages: supervised fine-tuning, rejection sampling, distillation. Unknown keys are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from verigym.datasets_cfg.load import load_config
from verigym.envs.grading.placement import Cluster
from verigym.envs.registry import origin
from verigym.trainer.config.checks import ENGINE_RULES, RUN_RULES, Rule, refuse_ineffective
from verigym.trainer.config.engine import EngineFields
from verigym.trainer.config.frozen import Frozen
from verigym.trainer.config.model import AdapterFields, ChatFields, OptimizerFields
from verigym.trainer.config.monitoring import LoggerName
from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.config.synonyms import refuse_foreign
from verigym.trainer.stages.selection import Condition, condition


def _by_environments(sources: tuple[SourceConfig, ...]) -> tuple[SourceConfig, ...]:
    for source in sources:
        if source.environment is None or source.dataset is not None:
            raise ValueError("written by an environment, such as arithmetic; a data set's rows go into `data` of an sft stage")
    return sources


Demonstrations = Annotated[tuple[SourceConfig, ...], AfterValidator(_by_environments)]
"""Environments that write worked solutions."""


class StageFields(Frozen):
    """Settings of every stage."""

    output: Path
    """Folder of the stage; it resumes from its own work in it."""
    seed: int = 0
    """Key of all randomness."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes CUDA where there is one."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """bf16 computes in bfloat16, while weights and optimizer state stay in fp32."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads. When left out, they follow from the model's size and the usable cores; see
    [threads](training.md#threads)."""

    @model_validator(mode="before")
    @classmethod
    def _names_of_here(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping):
            refuse_foreign(fields, cls.model_fields)
        return fields


FIT_RULES: tuple[Rule, ...] = tuple(rule for rule in RUN_RULES if rule[0] == ("log_project",))


class StepFields(StageFields, OptimizerFields):
    """Settings of the stages that train in steps."""

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
    """Largest share of the examples that may be longer than max_tokens; more is an error."""
    micro_batch_tokens: int = Field(default=8192, ge=1)
    """Most tokens of a forward and backward pass, with padding."""
    gradient_checkpointing: bool = False
    """Computes each layer again in the backward pass rather than keep its activations."""

    eval_every: int = Field(default=50, ge=0)
    """Steps between evaluations on the held-out examples, besides those at the start and the end; 0 for no evaluations at
    all."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Steps between checkpoints; the last step always gets one."""
    checkpoint_minutes: float = Field(default=10.0, ge=0)
    """If no checkpoint was made for so many minutes, one is also made at the end of the present step; 0 for only those of
    checkpoint_every."""
    keep_checkpoints: int = Field(default=1, ge=1)
    """Checkpoints to keep. Older ones are deleted, first those that checkpoint_minutes made."""
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


class FitFields(StepFields, AdapterFields, ChatFields):
    """Settings of the stages that train a policy in steps. Adapters and 8-bit moments are set as in a GRPO run."""

    pack_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a row of packed examples; twice the longest example of a batch when left out."""
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
    (("target_probability",), lambda c: c.eval_every, "is about evaluations; set eval_every above 0"),
)


class ExampleFields(FitFields):
    """Settings of the stages that learn from examples."""

    data: tuple[Path, ...] = ()
    """JSON Lines files with `prompt` and `completion`, or with `messages`, the last of which is the assistant's."""
    demonstrations: Demonstrations = ()
    """Environments that write worked solutions, for a cold start."""
    demonstration_count: int = Field(default=1000, ge=1)
    """With demonstrations: how many in all."""
    batch_size: int = Field(default=32, ge=1)
    """Examples an update."""
    epochs: float = Field(default=1.0, gt=0, le=1000)
    """Passes over the examples, if steps is left out."""
    steps: int | None = Field(default=None, ge=1)
    """Updates; from epochs when left out."""
    target_probability: float | None = Field(default=None, gt=0, lt=1)
    """Ends training at the first evaluation in which the mean probability of a whole held-out completion is at least this;
    `steps` or `epochs` then give the most. A cold start that is just long enough leaves the rest to RL."""
    held_out_share: float = Field(default=0.02, ge=0, lt=1)
    """Share of the prompts in data to hold out, chosen by their hash. All examples of a prompt are either trained on or held
    out."""
    held_out_count: int = Field(default=64, ge=1)
    """Largest number of held-out examples from data in an evaluation. If demonstrations are given, as many demonstrations of
    the test split are added."""

    @model_validator(mode="after")
    def _has_examples(self) -> Self:
        if not self.data and not self.demonstrations:
            raise ValueError("nothing to learn from; give `data`, `demonstrations` or both")
        refuse_ineffective(self, EXAMPLE_RULES)
        return self


class SftConfig(ExampleFields):
    """Settings of supervised fine-tuning, which minimises the mean negative log-likelihood of the completions' tokens."""


class LogitConfig(ExampleFields):
    """Settings of logit distillation: at each completion token of given examples, learn the teacher's whole distribution."""

    teacher: str
    """Local model directory or hub id; its tokenizer must be the student's."""
    direction: Literal["forward", "reverse"] = "forward"
    """forward is KL(teacher || student), reverse KL(student || teacher)."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """Both models' logits are divided by it."""


class OnPolicyConfig(FitFields):
    """Settings of on-policy distillation.

    The student samples completions, and each token's advantage is minus the reverse KL to the teacher.
    """

    teacher: str
    """Local model directory or hub id; its tokenizer must be the student's."""
    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    """Where prompts come from. Their environments grade only held-out answers, for the metrics; training uses no grades."""
    steps: int = Field(default=100, ge=1)
    """Updates."""
    prompts_per_step: int = Field(default=16, ge=1)
    """Prompts a step."""
    samples: int = Field(default=4, ge=1)
    """Completions a prompt."""
    divergence: Literal["sampled", "full"] = "sampled"
    """sampled: each token's own log-ratio is its advantage. full: minimises the exact reverse KL over the vocabulary."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Of the sampler; both models are compared at it."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Longer prompts are left out and counted."""
    max_left_out: float = Field(default=0.01, ge=0, le=1)
    """Largest share of a source's prompts that may be longer than max_prompt_tokens; more is an error."""
    max_new_tokens: int = Field(default=512, ge=1)
    """Most tokens of a completion."""
    generation_rows: int = Field(default=512, ge=1)
    """Most completions decoded at a time."""
    eval_prompts: int = Field(default=64, ge=1)
    """Held-out prompts per source, which are answered greedily to measure the accuracy."""
    workers: int | None = Field(default=None, ge=0)
    """Grading processes; by default one per core. 0 grades in this process, which a grader can then crash or block."""

    def as_run(self) -> TrainConfig:
        """Return these settings as those of a training run, as the builders of engines and graders take them."""
        names = ("model", "output", "sources", "seed", "device", "dtype", "threads", "workers", "eval_prompts", "max_left_out")
        sizes = ("prompts_per_step", "max_prompt_tokens", "max_new_tokens", "generation_rows", "temperature")
        fields: dict[str, Any] = {name: getattr(self, name) for name in (*names, *sizes)}
        return TrainConfig(**fields)


class SamplerFields(StageFields, EngineFields, ChatFields):
    """Settings of the stages that sample: their tasks, engine and grading."""

    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    """Sources of the tasks, as in a training run: environments that generate tasks, or data sets."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Longer prompts are left out and counted."""
    max_left_out: float = Field(default=0.01, ge=0, le=1)
    """Largest share of a source's prompts that may be longer than max_prompt_tokens; more is an error."""
    max_new_tokens: int = Field(default=512, ge=1)
    """Most tokens of a completion."""
    generation_rows: int = Field(default=512, ge=1)
    """Most completions decoded at a time; bounds the memory of the KV cache."""
    prompts_at_a_time: int = Field(default=32, ge=1)
    """Prompts that are sampled, graded and written together; a stopped stage resumes after the prompts that it has written."""
    workers: int | None = Field(default=None, ge=0)
    """Grading processes; by default one per core. 0 grades in this process, which a grader can then crash or block."""
    cluster: Cluster | None = None
    """Grade on the nodes of a cluster, `ray` or `ray:ADDRESS`; `workers` then counts the processes of each node."""
    grade_timeout_s: float = Field(default=30.0, gt=0)
    """Wall time of one verdict."""
    grade_memory_mb: int = Field(default=4096, ge=64)
    """Address space of one grading process."""

    @model_validator(mode="after")
    def _engine_settings_have_an_effect(self) -> Self:
        refuse_ineffective(self, ENGINE_RULES)
        return self

    def as_run(self, model: str) -> TrainConfig:
        """Return these settings as those of a training run of `model`, as the builders of engines and graders take them."""
        # A run allows no temperature of 0; a stage passes its own with each call.
        shared = self.model_fields_set & set(TrainConfig.model_fields) - {"temperature"}
        fields: dict[str, Any] = {name: getattr(self, name) for name in shared}
        fields.update(model=model, output=self.output, sources=self.sources, prompts_per_step=1)
        for name in ("max_prompt_tokens", "max_new_tokens", "generation_rows"):
            fields[name] = getattr(self, name)
        return TrainConfig(**fields)


class SampleConfig(SamplerFields):
    """Settings of rejection sampling: completions are generated and graded, and a rule selects the ones for a data set."""

    model: str
    """Local model directory or hub id: the policy, or a teacher."""
    prompts: int = Field(ge=1)
    """Prompts in all, by the sources' shares."""
    samples: int = Field(default=4, ge=1)
    """Completions a prompt."""
    temperature: float = Field(default=1.0, ge=0, le=10)
    """Of the sampler; 0 is greedy."""
    keep: Literal["best", "all_correct", "shortest_correct", "longest_correct"] = "shortest_correct"
    """Rule: which completions may be kept, and in which order of preference. `best` takes all that have
    a reward, correct or not, by descending reward."""
    keep_if: Mapping[str, str] = {}
    """Further conditions, such as {language: ">= 0.95", paragraphs/longest: "<= 300"}: on the reward of a part (environment,
    added reward or format gate), or on a component of the part. Every source must have the part. To add a part for the
    condition alone, give it weight 0 in `add`."""
    at_most: int | None = Field(default=1, ge=1)
    """Most completions that are kept per prompt; null for no bound."""
    least_reward: float | None = None
    """Lowest reward that is kept; no bound when left out."""

    @property
    def conditions(self) -> list[Condition]:
        """Return the conditions of `keep_if`."""
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
    """Return the names of the parts of `source` that `keep_if` can name: environment, added rewards, format gate.

    Raises:
        UsageError: the data set of `source` is unknown.
    """
    own = source.environment or ""
    if source.dataset is not None:
        own = load_config(source.dataset).environment
    if source.graded_by is not None:
        own = source.graded_by.environment
    own = origin(own).name if ":" in own else own
    return [own, *source.add, *(["format"] if source.format is not None else [])]
