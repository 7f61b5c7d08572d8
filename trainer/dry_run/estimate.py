"""Memory, tokens and time of a run before it starts, from the model's shape and a few small steps measured here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.table import Table

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.grading.grader import MAX_DEFAULT_WORKERS
from verigym.envs.progress import duration
from verigym.sandbox.cores import usable_cores
from verigym.trainer.batches.builder import refuse_lost_signal
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import credits_of
from verigym.trainer.distributed.full_shards import repeated_layers
from verigym.trainer.dry_run.formulas import Memory, ModelShape, Speed, Tokens, evaluations, longest, mean_length, memory
from verigym.trainer.dry_run.measure import measure
from verigym.trainer.logprobs.chunked import chunk_tokens
from verigym.trainer.models.loading import load_model, pick_device
from verigym.trainer.models.lora import add_adapter
from verigym.trainer.models.path import require_model
from verigym.trainer.rollout.graders import open_graders, open_sessions
from verigym.trainer.tasks.mixture import build_source
from verigym.trainer.threads import own_threads

GIB = 2**30
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class RunEstimate:
    """The estimated memory and time of a run."""

    config: TrainConfig
    shape: ModelShape
    memory: Memory
    free_bytes: int | None
    """Free memory of the device; None if the system does not say."""
    expected: Tokens
    """Expected tokens of a step. All groups are counted as trained on, although groups of equal rewards may not be."""
    most: Tokens
    ended: float
    """Share of the measured completions that ended by themselves."""
    speed: Speed
    grading_s: float
    """Seconds to grade a step's completions with all workers; grading runs beside generation."""
    held_out: int
    """Completions of one evaluation."""

    def step_s(self, tokens: Tokens) -> tuple[float, float]:
        """Return the predicted seconds of a step with `tokens`, as the pair (generation with grading, update)."""
        generation = max(self.speed.generate(tokens), tokens.rounds * self.grading_s)
        return generation, self.speed.trained_token_s * tokens.trained(self.config)

    def evaluation_s(self, tokens: Tokens) -> float:
        """Return the seconds of one evaluation with `tokens`."""
        prompts = self.config.prompts_per_step
        each = Tokens(tokens.prompts / prompts, tokens.completions / (prompts * self.config.group_size))
        return self.held_out * self.speed.generate(each)

    def run_s(self, tokens: Tokens) -> float:
        """Return the seconds of the whole run with `tokens` in each step, evaluations included."""
        step_s = sum(self.step_s(tokens)) / (1.0 if self.config.overlap == "none" else self.overlap_gain(tokens))
        return self.config.steps * step_s + evaluations(self.config) * self.evaluation_s(tokens)

    def overlap_gain(self, tokens: Tokens) -> float:
        """Return the largest factor by which `overlap: one_step` can speed up a step with `tokens`.

        If generation takes g and the update u seconds, this is (g + u) / max(g, u). It is reached if the two do not slow each
        other down, as on different devices.
        """
        return sum(self.step_s(tokens)) / max(self.step_s(tokens))


@own_threads()
def estimate_run(config: TrainConfig, environments: Mapping[str, Environment] | None = None) -> RunEstimate:
    """Estimate the memory and time of a run by loading its model, sources and graders, and timing a few small steps.

    Nothing is written.

    Raises:
        UsageError: the configuration, the model or a source is bad, or the model with its optimizer does not fit here.
    """
    transformers.utils.logging.disable_progress_bar()
    device = pick_device(config.device)
    shape = model_shape(config.model, config)
    free = free_bytes(device)
    refuse_what_does_not_fit(memory(shape, config, 0.0, 0), free, config)
    sources = [build_source(source, config.seed, config.eval_prompts, environments) for source in config.sources]
    refuse_lost_signal(config, credits_of(config, {source.label: source.environment for source in sources}))
    with open_graders(sources, config) as graders, open_sessions(sources, config) as sessions:
        measured = measure(config, sources, graders, sessions)
    prompts, rows = config.prompts_per_step, config.prompts_per_step * config.group_size
    room = longest(shape, config)
    longest_prompt, longest_completion = min(config.max_prompt_tokens, room), min(config.max_new_tokens, room)
    completion = mean_length(measured.completions, measured.truncated, longest_completion)
    workers = min(usable_cores(), MAX_DEFAULT_WORKERS) if config.workers is None else max(1, config.workers)
    rounds = config.max_oversampling if config.dynamic_sampling else 1.0
    chunk = min(config.logprob_chunk or chunk_tokens(shape.vocabulary, device.type), config.micro_batch_tokens)
    return RunEstimate(
        config=config,
        shape=shape,
        memory=memory(shape, config, measured.activation_bytes, chunk),
        free_bytes=free,
        expected=Tokens(prompts * measured.prompt_tokens, rows * completion),
        most=Tokens(prompts * longest_prompt, rows * longest_completion, rounds),
        ended=1 - sum(measured.truncated) / len(measured.truncated),
        speed=measured.speed,
        grading_s=measured.grading_s * rows / workers,
        held_out=sum(len(source.held_out) for source in sources) * config.eval_samples,
    )


def model_shape(model: str, settings: AdapterFields) -> ModelShape:
    """Return a model's shape from its configuration alone, without its weights.

    Args:
        model: directory or hub id.
        settings: decide whether the model gets adapters, and which.

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
    blocks = [sum(parameter.numel() for parameter in block.parameters()) for block in repeated_layers(empty)]
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
        layer=max(blocks),
        ends=sum(tensors) - sum(blocks),
    )


def free_bytes(device: torch.device) -> int | None:
    """Return the free bytes of the GPU `device`, or else of the machine's memory; None if unknown.

    The free memory of the machine is what the control group (cgroup) of this process still allows, if that is less.
    """
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
    """Return the free bytes of the disk that `folder` is on, or would be on if it does not exist yet."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def refuse_what_does_not_fit(needs: Memory, free: int | None, config: TrainConfig) -> None:
    """Refuse a run that needs more than `free` bytes of memory.

    Raises:
        UsageError: names the memory that is too large and the settings that make it smaller.
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
    """Return `size` bytes in words, such as `1.25 GiB`."""
    return f"{size / GIB:,.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.1f} MiB"


def purposes(needs: Memory) -> dict[str, int]:
    """Return the bytes of device memory in `needs` by purpose. The keys are phrases such as `reference model`."""
    return {
        "weights": needs.weights,
        "gradients": needs.gradients,
        "AdamW's two moments": needs.optimizer,
        "reference model": needs.reference,
        "critic with its gradients and moments": needs.critic,
        "copy of the weights to sample from": needs.copied,
        "generation: KV cache": needs.kv_cache,
        "generation: logits of one token": needs.sampling,
        "update: activations of a micro-batch": needs.activations,
        "update: a chunk of logits": needs.logits,
    }


def tables(estimate: RunEstimate) -> tuple[Table, Table]:
    """Return the two tables that `--dry-run` prints."""
    needs, config, steps = estimate.memory, estimate.config, estimate.config.steps
    adapters = f" and {sum(estimate.shape.trained):,} in adapters" if config.lora_rank else ""
    title = f"{estimate.shape.parameters:,} parameters{adapters}, {config.dtype}, native generation"
    bytes_ = Table(title=title, title_justify="left")
    bytes_.add_column("memory, at most")
    bytes_.add_column("", justify="right")
    for name, size in purposes(needs).items():
        if size:
            bytes_.add_row(name, format_bytes(size))
    bytes_.add_section()
    how = "at once" if needs.overlapped else "in turn"
    bytes_.add_row(f"all, generation and update {how}", format_bytes(needs.peak))
    bytes_.add_row("free", "unknown" if estimate.free_bytes is None else format_bytes(estimate.free_bytes), end_section=True)
    bytes_.add_row("checkpoints on disk", format_bytes(needs.checkpoints))
    bytes_.add_row("free on disk", format_bytes(free_disk_bytes(config.output)))

    work = Table(caption=f"Completion lengths: {_where_from(estimate.ended)}.", caption_justify="left")
    for name in ("work", "expected", "at most"):
        work.add_column(name, justify="left" if name == "work" else "right")
    evaluation = f"evaluation of {estimate.held_out:,} completions, {evaluations(config)} times"
    rows: dict[str, Callable[[Tokens], str]] = {
        "prompt tokens a step": lambda step: f"{step.prompts * step.rounds:,.0f}",
        "completion tokens a step": lambda step: f"{step.completions * step.rounds:,.0f}",
        f"completion tokens, {steps:,} steps": lambda step: f"{step.completions * step.rounds * steps:,.0f}",
        "generation and grading a step": lambda step: _time(estimate.step_s(step)[0]),
        "update a step": lambda step: _time(estimate.step_s(step)[1]),
        "a step with overlap, at best": lambda step: f"1/{estimate.overlap_gain(step):.2f}",
        evaluation: lambda step: _time(estimate.evaluation_s(step)),
        "the whole run": lambda step: _time(estimate.run_s(step)),
    }
    for name, cell in rows.items():
        if name != evaluation or (estimate.held_out and evaluations(config)):
            work.add_row(name, cell(estimate.expected), cell(estimate.most))
    return bytes_, work


def figures(estimate: RunEstimate) -> dict[str, Any]:
    """Return a dictionary of the numbers that `tables` shows, in bytes and seconds."""

    def work(tokens: Tokens) -> dict[str, float]:
        generation_s, update_s = estimate.step_s(tokens)
        return {
            "prompt_tokens_a_step": tokens.prompts * tokens.rounds,
            "completion_tokens_a_step": tokens.completions * tokens.rounds,
            "generation_s": generation_s,
            "update_s": update_s,
            "evaluation_s": estimate.evaluation_s(tokens),
            "run_s": estimate.run_s(tokens),
        }

    return {
        "parameters": estimate.shape.parameters,
        "memory_bytes": {**asdict(estimate.memory), "peak": estimate.memory.peak},
        "free_bytes": estimate.free_bytes,
        "free_disk_bytes": free_disk_bytes(estimate.config.output),
        "expected": work(estimate.expected),
        "most": work(estimate.most),
        "ended": estimate.ended,
    }


def _where_from(ended: float) -> str:
    if ended == 1:
        return "every measured completion ended by itself"
    if ended == 0:
        return "no measured completion ended by itself, so the upper bound stands for the expectation"
    return f"{ended:.0%} of the measured completions ended by themselves, the others are guessed from those"


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)
