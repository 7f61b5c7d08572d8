"""Settings of a training run. Unknown keys are refused with a suggestion; the string under a field is its documentation.

A config is read once and unpacked into plain arguments; losses and advantages never see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from verigym.datasets_cfg.suites import SuiteSource, load_suite, run_places, suite_document
from verigym.datasets_cfg.yamlfile import Document, checked, read_document
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.grading.placement import Cluster
from verigym.trainer.config.checks import refuse_ineffective
from verigym.trainer.config.engine import ENGINES, EngineFields
from verigym.trainer.config.episodes import EpisodeFields
from verigym.trainer.config.model import AdapterFields, ChatFields, KernelFields, ShardFields
from verigym.trainer.config.monitoring import MonitoringFields, ResumeFields
from verigym.trainer.config.overrides import overriding
from verigym.trainer.config.presets import with_preset
from verigym.trainer.config.sampling import SamplingFields
from verigym.trainer.config.synonyms import refuse_foreign
from verigym.trainer.config.update import CriticFields, UpdateFields
from verigym.trainer.losses.table import ON_POLICY_LOSSES


class SourceConfig(SuiteSource):
    """One source of the mixture: the fields of a suite's source, and fields that only a training run has."""

    advantage: str | None = None
    """Advantage for this source's groups. When left out, the advantage of the whole run is used, with its options."""
    advantage_options: Mapping[str, Any] = {}
    """Keyword arguments of this source's advantage, by name."""
    reward_weights: Mapping[str, float] = {}
    """With gdpo as this source's advantage: the score's components and their weights."""
    data_dir: Path | None = None
    """Folder of the data set's local files; the hub when left out."""

    @model_validator(mode="after")
    def _advantage_fits(self) -> Self:
        if (self.advantage == "gdpo") is not bool(self.reward_weights):
            raise ValueError("advantage gdpo and reward_weights go together: name the components and their weights")
        if self.data_dir is not None and self.dataset is None:
            raise ValueError("data_dir is the folder of a data set's files; this source writes its own tasks, so leave it out")
        if self.advantage is None and self.advantage_options:
            raise ValueError("advantage_options without an advantage: name it in `advantage`")
        return self


class TrainConfig(
    SamplingFields,
    EpisodeFields,
    UpdateFields,
    CriticFields,
    ChatFields,
    AdapterFields,
    EngineFields,
    KernelFields,
    ShardFields,
    MonitoringFields,
    ResumeFields,
):
    """The settings of a GRPO run."""

    model: str
    """Local model directory or hub id of a transformers causal language model."""
    output: Path
    """Folder for checkpoints, logs and the final model. A run that finds its own checkpoints here resumes."""
    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    """The mixture."""
    suite: str | None = None
    """Name or path of a suite, which gives the sources and defaults; fields of the run take precedence. In a finished
    configuration this is null, because the suite has been read and replaced by its sources."""
    data_dir: Path | None = None
    """With a suite: folder of its data sets' local files; missing ones are read from the hub."""
    seed: int = 0
    """Seed of all randomness."""
    preset: str | None = None
    """A paper's settings as defaults, such as grpo, dr_grpo, dapo or gspo (trainer/config/presets.py). Fields that you give
    take precedence."""

    steps: int = Field(default=200, ge=1)
    """Optimizer batches: one generation phase each."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto uses CUDA where it is available."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """bf16 computes in bfloat16 over fp32 weights and optimizer state."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads. When left out, they follow from the model's size and the usable cores, and a run keeps the numbers that it
    began with; see [threads](training.md#threads)."""

    eval_every: int = Field(default=50, ge=0)
    """Steps between evaluations on the held-out splits; 0 for none. The first and the last step are always evaluated."""
    eval_prompts: int = Field(default=64, ge=1)
    """Held-out prompts per source; always the same ones."""
    eval_samples: int = Field(default=1, ge=1)
    """Completions per held-out prompt; above 1 also gives pass@k, and needs eval_temperature above 0."""
    eval_temperature: float = Field(default=0.0, ge=0, le=10)
    """Sampling temperature in evaluation; 0 is greedy."""

    checkpoint_every: int = Field(default=50, ge=1)
    """Steps between checkpoints; the last step always gets one."""
    checkpoint_minutes: float = Field(default=10.0, ge=0)
    """A checkpoint is also made at the end of a step if this many minutes or more have passed since the last checkpoint, or
    since the start; 0 for never."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many checkpoints are kept; older ones are deleted, first those that checkpoint_minutes made."""
    samples_per_step: int = Field(default=2, ge=0)
    """Completions per step that are written to samples.jsonl."""

    workers: int | None = Field(default=None, ge=0)
    """Grading processes; one per core by default. 0 grades in the trainer's own process, where a grader's crash or hang also
    hits the trainer."""
    cluster: Cluster | None = None
    """Grade on the nodes of a cluster, `ray` or `ray:ADDRESS`. `workers` is then the number of grading processes on each
    node."""
    grade_timeout_s: float = Field(default=30.0, gt=0)
    """Most seconds of wall time for one verdict."""
    grade_memory_mb: int = Field(default=4096, ge=64)
    """Address space of one grading process, in MiB."""

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            refuse_foreign(fields, cls.model_fields)
            fields = _with_suite(fields)
        if isinstance(fields, dict) and isinstance(fields.get("preset"), str):
            return with_preset(fields)
        return fields

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.eval_samples > 1 and self.eval_temperature == 0:
            raise ValueError("eval_samples above 1 needs eval_temperature above 0: greedy samples are all the same")
        if self.updates_per_step > self.prompts_per_step:
            raise ValueError("updates_per_step cannot exceed prompts_per_step: an update needs at least one group")
        if self.truncated_reward is not None and self.truncated == "mask":
            raise ValueError("truncated: mask leaves out the completions that truncated_reward would price; set one of them")
        kinds = {
            "overlap": self.overlap != "none",
            "dynamic_sampling": self.dynamic_sampling,
            "replay_share": self.replay_share > 0,
        }
        stale = next((name for name, there in kinds.items() if there), None)
        if stale and self.loss in ON_POLICY_LOSSES and self.correction in (None, "opsm"):
            raise ValueError(
                f"{stale} trains on groups that an earlier policy sampled, to which loss {self.loss} takes no ratio; set a "
                "correction such as token_truncated, or take a loss with a ratio, such as clipped"
            )
        self._refuse_overlap()
        if self.lora_base != "fp32" and self.dtype != "bf16":
            raise ValueError(f"lora_base {self.lora_base} computes in bfloat16; set dtype to bf16, or lora_base to fp32")
        if self.shard == "full":
            self._refuse_whole_weights()
        if sum(source.min_share for source in self.sources) > 1:
            raise ValueError("the sources' min_share add up to more than 1")
        refuse_ineffective(self)
        labels = [source.label for source in self.sources]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two sources are called {label!r}; give one a `name`")
        return self

    def _refuse_overlap(self) -> None:
        """Refuse what cannot sample while the policy is updated."""
        if self.overlap == "free" and not ENGINES[self.engine].free:
            names = " or ".join(name for name, entry in ENGINES.items() if entry.free)
            raise ValueError(f"overlap free needs an engine that takes new weights while it samples; set engine to {names}")
        if self.overlap == "free" and self.replay_share > 0:
            raise ValueError(
                "replay_share trains on groups of many steps ago, which overlap free drops as stale (max_staleness); set only "
                "one of them"
            )
        if self.overlap != "none" and self.engine == "vllm" and self.vllm_sleep:
            raise ValueError("overlap samples while the policy is updated, when vLLM sleeps; set vllm_sleep to false")

    def _refuse_whole_weights(self) -> None:
        """Refuse settings that need the full weights in one process, because `shard: full` never gathers them."""
        needs = {
            "cuda_graphs true": self.cuda_graphs is True,
            "engine vllm": self.engine == "vllm",
        }
        for setting, on in needs.items():
            if on:
                raise ValueError(f"shard full does not go with {setting}, which reads whole weights; set shard to optimizer")
        if self.lora_base == "4bit":
            raise ValueError(
                "shard full cuts weights into rows, and lora_base 4bit stores them in packed blocks; set lora_base to bf16, or "
                "shard to optimizer"
            )
        copies = self.lora_base == "fp32" or self.advantage == "gae"
        if self.dtype == "bf16" and copies and not self.gradient_checkpointing:
            raise ValueError(
                "shard full with dtype bf16 would keep a bfloat16 copy of every layer for the backward pass; set "
                "gradient_checkpointing to true"
            )


def _with_suite(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the suite that `fields` names, overridden by `fields`."""
    suite, data_dir = fields.get("suite"), fields.get("data_dir")
    if suite is None:
        if data_dir is not None:
            raise ValueError("data_dir goes with a suite; a source has its own data_dir")
        return dict(fields)
    if fields.get("sources"):
        raise ValueError("suite and sources both say what is trained on; keep one")
    own = {name: value for name, value in fields.items() if name not in ("suite", "data_dir", "sources")}
    return {**load_suite(str(suite)).fields(Path(data_dir) if data_dir else None), **own}


def build_config(fields: Mapping[str, Any], place: str) -> TrainConfig:
    """Validate a run's fields and return its configuration.

    Raises:
        UsageError: one line that names `place` and the field.
    """
    try:
        return TrainConfig(**fields)
    except ValidationError as error:
        raise UsageError(f"{place}: {explain(error, TrainConfig.model_fields)}") from None
    except TypeError as error:
        raise UsageError(f"{place}: {error}") from None


def read_config(path: Path | str | None, overrides: Sequence[str] = ()) -> TrainConfig:
    """Return the configuration of a run from a YAML file and `key=value` overrides.

    An override such as `sources.0.weight=2` sets a nested field; its value is read as YAML.

    Args:
        path: the file; None for a run that consists of overrides only.
        overrides: take precedence over the file.

    Raises:
        UsageError: the file or an override is bad; the message names the file's line, or the override.
    """
    return config_of(run_document(path, overrides))


def run_document(path: Path | str | None, overrides: Sequence[str] = ()) -> Document:
    """Return a run's fields, each with the line of the YAML file or the override that set it.

    Raises:
        UsageError: the file cannot be read, or the path of an override does not exist.
    """
    document = Document("the command line", {}, {}) if path is None else read_document(path)
    return _with_places_of_suite(overriding(document, overrides))


def _with_places_of_suite(document: Document) -> Document:
    """Return `document` with the suite's name replaced by the suite's fields, each with its line in the suite's file."""
    suite = document.fields.get("suite")
    if suite is None:
        return document
    try:
        fields = _with_suite(document.fields)
    except ValueError as error:
        message = str(error)  # about the suite's own file, or about `suite` in this one
        raise UsageError(message if message.startswith(f"{suite}:") else f"{document.place(('suite',))}: {message}") from None
    own = {loc: place for loc, place in document.places.items() if loc[0] in fields}
    given = {loc: place for loc, place in run_places(suite_document(str(suite))).items() if (loc[0],) not in own}
    return replace(document, fields=fields, places=given | own)


def config_of(document: Document) -> TrainConfig:
    """Validate the fields of `document`, which `run_document` returned, and return the configuration.

    Raises:
        UsageError: as `read_config`.
    """
    return checked(TrainConfig, document.fields, document)
