"""Memory, tokens and time of a run before it starts, from the model's shape and a few small steps measured here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.trainer.batches.builder import refuse_lost_signal
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import credits_of
from verigym.trainer.dry_run.formulas import (
    Lengths,
    Memory,
    ModelShape,
    Speed,
    evaluations,
    expected_lengths,
    longest,
    memory,
    shares_prompts,
)
from verigym.trainer.dry_run.measure import measure
from verigym.trainer.logprobs.chunked import chunk_tokens
from verigym.trainer.models.loading import load_model, pick_device
from verigym.trainer.models.lora import add_adapter
from verigym.trainer.models.path import require_model
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.tasks.mixture import build_source

GIB = 2**30
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class StepLoad:
    """Completions of one step, and what is done with them."""

    rows: Lengths
    rounds: float
    """Rounds of generation: more than one if groups are drawn until they have a signal."""
    trained: float
    """Share of the groups that the update trains on; those with equal rewards cost nothing."""


@dataclass(frozen=True)
class RunEstimate:
    """Memory and time of a run."""

    config: TrainConfig
    shape: ModelShape
    memory: Memory
    free_bytes: int | None
    """Free memory of the device; None if the system does not say."""
    expected: StepLoad
    most: StepLoad
    ended: float
    """Share of the measured completions that ended by themselves."""
    speed: Speed
    grading_s: float
    """Seconds to grade a step's completions with all workers; grading runs beside generation."""
    held_out: int
    """Completions of one evaluation."""

    def step_s(self, load: StepLoad) -> tuple[float, float]:
        """Return seconds of a step: generation with grading, and the update."""
        generation = load.rounds * self.speed.generate(load.rows)
        update = load.trained * self.speed.update(load.rows, shares_prompts(self.config))
        return max(generation, load.rounds * self.grading_s), update

    def evaluation_s(self, load: StepLoad) -> float:
        """Return seconds of one evaluation with prompts and completions such as these."""
        rows, picks = load.rows, range(self.held_out)
        prompts = tuple(rows.prompts[i % len(rows.prompts)] for i in picks)
        completions = tuple(rows.completions[i % len(rows.completions)] for i in picks)
        return self.speed.generate(Lengths(prompts, completions))

    def run_s(self, load: StepLoad) -> float:
        """Return seconds of the whole run, evaluations included."""
        return self.config.steps * sum(self.step_s(load)) + evaluations(self.config) * self.evaluation_s(load)


def estimate_run(config: TrainConfig, environments: Mapping[str, Environment] | None = None) -> RunEstimate:
    """RunEstimate a run: load its model, its sources and its graders, and time a few small steps. Nothing is written.

    Raises:
        UsageError: the configuration, the model or a source is bad, or the model with its optimizer does not fit here.
    """
    transformers.utils.logging.disable_progress_bar()
    if config.threads:
        torch.set_num_threads(config.threads)
    device = pick_device(config.device)
    shape = model_shape(config.model, config)
    free = free_bytes(device)
    chunk = config.logprob_chunk or chunk_tokens(shape.vocabulary, device.type)
    chunk = min(chunk, config.micro_batch_tokens)
    refuse_what_does_not_fit(memory(shape, config, 0.0, 0), free, config)
    sources = [build_source(source, config.seed, config.eval_prompts, environments) for source in config.sources]
    refuse_lost_signal(config, credits_of(config, {source.label: source.environment for source in sources}))
    with open_graders(sources, config) as graders:
        measured = measure(config, sources, graders)
    prompts, rows = config.prompts_per_step, config.prompts_per_step * config.group_size
    room = longest(shape, config)
    workers = (os.cpu_count() or 1) if config.workers is None else max(1, config.workers)
    lengths = Lengths(
        tuple(measured.prompts[i * len(measured.prompts) // prompts] for i in range(prompts)),
        expected_lengths(measured.completions, measured.truncated, rows, config.max_new_tokens),
    )
    longest_rows = Lengths((min(config.max_prompt_tokens, room),) * prompts, (min(config.max_new_tokens, room),) * rows)
    skips = not (config.kl_coef > 0 or config.entropy_coef > 0 or config.dynamic_sampling)
    return RunEstimate(
        config=config,
        shape=shape,
        memory=memory(shape, config, measured.activation_bytes, chunk),
        free_bytes=free,
        expected=StepLoad(lengths, 1.0, measured.with_signal if skips else 1.0),
        most=StepLoad(longest_rows, config.max_oversampling if config.dynamic_sampling else 1.0, 1.0),
        ended=1 - sum(measured.truncated) / len(measured.truncated),
        speed=measured.speed,
        grading_s=measured.grading_s * rows / workers,
        held_out=sum(len(source.held_out) for source in sources) * config.eval_samples,
    )


def model_shape(model: str, settings: AdapterFields) -> ModelShape:
    """Return a model's shape from its configuration alone, without its weights.

    Args:
        model: directory or hub id.
        settings: whether it gets adapters.

    Raises:
        UsageError: there is no such model, or it takes no such adapters.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(require_model(model), trust_remote_code=False)
        with torch.device("meta"):
            empty = transformers.AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError, KeyError, ImportError):
        load_model(model, torch.device("cpu"))  # says what is wrong with it
        raise
    text = config.get_text_config()
    heads = text.num_attention_heads
    tensors = tuple(parameter.numel() for parameter in empty.parameters())
    head = empty.get_output_embeddings()
    layers = [module for module in empty.modules() if isinstance(module, torch.nn.Linear) and module is not head]
    linear = sum(layer.weight.numel() for layer in layers)
    if settings.lora_rank:
        with torch.device("meta"):
            empty = add_adapter(empty, settings, seed=0)
    return ModelShape(
        parameters=sum(tensors),
        layers=text.num_hidden_layers,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_size=getattr(text, "head_dim", None) or text.hidden_size // heads,
        vocabulary=text.vocab_size,
        positions=getattr(text, "max_position_embeddings", None),
        trained=tuple(parameter.numel() for parameter in empty.parameters() if parameter.requires_grad),
        tensors=tensors,
        linear=linear,
    )


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory of the GPU, or of the machine within its control group; None if the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        bound = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return free
    return free if bound == "max" else min(free, int(bound) - used)


def free_disk_bytes(folder: Path) -> int:
    """Return the free space of the disk that holds the folder, or is going to."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def refuse_what_does_not_fit(needs: Memory, free: int | None, config: TrainConfig) -> None:
    """Compare the needs with what is there.

    Raises:
        UsageError: naming what is too large and which settings make it smaller.
    """
    if free is not None and needs.standing > free:
        raise UsageError(
            f"this run does not fit: weights, gradients and optimizer need {format_bytes(needs.standing)}, "
            f"{format_bytes(free)} are free; take a smaller model or a larger machine"
        )
    if free is not None and needs.peak > free:
        updating = needs.activations + needs.logits > needs.kv_cache + needs.sampling
        part = "the update" if updating else "generation"
        settings = "micro_batch_tokens, or set gradient_checkpointing" if updating else "generation_rows or max_new_tokens"
        raise UsageError(
            f"this run may not fit: with {part} it needs up to {format_bytes(needs.peak)}, {format_bytes(free)} are free; "
            f"lower {settings}"
        )
    disk = free_disk_bytes(config.output)
    if needs.checkpoints > disk:
        raise UsageError(
            f"output: the checkpoints need {format_bytes(needs.checkpoints)} on disk, {format_bytes(disk)} are free; "
            f"lower keep_checkpoints or name another folder"
        )


def format_bytes(size: float) -> str:
    """Return a size in words, such as `1.25 GiB`."""
    return f"{size / GIB:,.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.1f} MiB"
