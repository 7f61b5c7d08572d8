"""Memory, tokens and time of a run before it starts, from the model's shape and a few small steps measured here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
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
from verigym.trainer.dry_run.formulas import Kept, Lengths, Memory, ModelShape, longest, memory
from verigym.trainer.dry_run.measure import Tell, measure, mixture
from verigym.trainer.dry_run.proposals import Proposal, format_bytes, propose
from verigym.trainer.dry_run.speed import Speed, Tokens, completion_lengths, evaluations
from verigym.trainer.logprobs.chunked import chunk_tokens
from verigym.trainer.models.loading import load_model, pick_device
from verigym.trainer.models.lora import add_adapter
from verigym.trainer.models.path import require_model
from verigym.trainer.rollout.graders import open_graders, open_sessions
from verigym.trainer.tasks.answer_forms import with_templates
from verigym.trainer.tasks.mixture import build_source, shares_of
from verigym.trainer.threads import own_threads

BUSY = 0.1
"""Share of the measuring time in which the process waited for a core, above which the table says so."""
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class RunEstimate:
    """The estimated memory and time of a run."""

    config: TrainConfig
    shape: ModelShape
    memory: Memory
    """With prompts and completions of the expected lengths."""
    most_memory: Memory
    """With prompts and completions that are all as long as the settings allow."""
    free_bytes: int | None
    """Memory of the device that the run can have; None if the system does not say."""
    expected: Tokens
    """Expected tokens of a step. All groups are counted as trained on, although groups of equal rewards may not be."""
    most: Tokens
    ended: float
    """Share of the measured completions that ended by themselves."""
    speed: Speed
    grading_s: float
    """Seconds to grade a step's completions with all workers; grading runs beside generation, if there are workers."""
    held_out: int
    """Completions of one evaluation."""
    waiting: float
    """Share of the measuring time in which this process waited for a core that others used."""
    look: tuple[str, ...] = ()
    """What the measured texts show about the prompts; see `first_look`."""
    proposals: tuple[Proposal, ...] = ()

    def step_s(self, tokens: Tokens) -> tuple[float, float]:
        """Return the predicted seconds of a step with `tokens`, as the pair (generation with grading, update)."""
        generation, grading = self.speed.generate(tokens), tokens.rounds * self.grading_s
        both = generation + grading if self.config.workers == 0 else max(generation, grading)
        return both, self.speed.update(tokens, self.config)

    def evaluation_s(self, tokens: Tokens) -> float:
        """Return the seconds of one evaluation with prompts and completions as long as those of `tokens`."""
        prompts = self.config.prompts_per_step
        share = self.held_out / (prompts * self.config.group_size)
        completions = tokens.completions * share
        steps = max(tokens.decode_steps, completions / self.config.generation_rows)
        asked = tokens.prompts / prompts * self.held_out / self.config.eval_samples
        return self.speed.generate(Tokens(asked, completions, decode_steps=steps, attended=tokens.attended * share))

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
def estimate_run(
    config: TrainConfig, environments: Mapping[str, Environment] | None = None, tell: Tell = lambda line: None
) -> RunEstimate:
    """Estimate the memory and time of a run by loading its model, sources and graders, and timing a few small steps.

    Nothing is written.

    Args:
        config: the run.
        environments: environments made in Python, by name.
        tell: called with lines of text that say what is being measured.

    Raises:
        UsageError: the configuration, the model or a source is bad, or the model with its optimizer does not fit here.
    """
    transformers.utils.logging.disable_progress_bar()
    device = pick_device(config.device)
    shape = model_shape(config.model, config)
    process = resident_bytes() if device.type == "cpu" else 0
    free = free_bytes(device)
    free = None if free is None else free + process
    one_token = memory(shape, config, Lengths((1,), ((1,),)), Kept(0.0, 0.0), 0, process=process)
    refuse_what_does_not_fit(one_token, free, config)
    config = with_templates(config, [config.model], environments)
    sources = [build_source(source, config.seed, config.eval_prompts, environments) for source in config.sources]
    refuse_lost_signal(config, credits_of(config, {source.label: source.environment for source in sources}))
    with open_graders(sources, config) as graders, open_sessions(sources, config) as sessions:
        measured = measure(config, sources, graders, sessions, tell)
    prompts, rows = config.prompts_per_step, config.prompts_per_step * config.group_size
    most, most_tokens = Lengths.most(shape, config), min(config.max_new_tokens, longest(shape, config))
    texts = completion_lengths(measured.completions, measured.truncated, most_tokens, rows)
    groups = tuple(tuple(texts[row : row + config.group_size]) for row in range(0, rows, config.group_size))
    expected = Lengths(tuple(mixture(measured.prompts, config, prompts)), groups)
    mean = sum(share * fmean(part) for share, part in zip(shares_of(config.sources), measured.prompts, strict=True))
    workers = min(usable_cores(), MAX_DEFAULT_WORKERS) if config.workers is None else max(1, config.workers)
    rounds = config.max_oversampling if config.dynamic_sampling else 1.0

    def needs(lengths: Lengths, config: TrainConfig, shape: ModelShape) -> Memory:
        chunk = min(config.logprob_chunk or chunk_tokens(shape.vocabulary, device.type), config.micro_batch_tokens)
        return memory(shape, config, lengths, measured.kept, chunk, measured.decoding, device=device.type, process=process)

    estimate = RunEstimate(
        config=config,
        shape=shape,
        memory=needs(expected, config, shape),
        most_memory=needs(most, config, shape),
        free_bytes=free,
        expected=replace(Tokens.of(expected, config.generation_rows), prompts=prompts * mean),
        most=Tokens.of(most, config.generation_rows, rounds),
        ended=1 - sum(measured.truncated) / len(measured.truncated),
        speed=measured.speed,
        grading_s=measured.grading_s * rows / workers,
        held_out=sum(len(source.held_out) for source in sources) * config.eval_samples,
        waiting=measured.waiting,
        look=measured.look,
    )

    def adapted(settings: TrainConfig) -> ModelShape:
        return shape if settings.lora_rank == config.lora_rank else model_shape(config.model, settings)

    found = propose(
        config,
        free,
        (estimate.memory, estimate.most_memory),
        lambda settings: (needs(expected, settings, adapted(settings)), needs(most, settings, adapted(settings))),
        estimate.expected.trained(config.model_copy(update={"gradient_checkpointing": True}))
        / estimate.expected.trained(config),
    )
    return replace(estimate, proposals=tuple(found))


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
    matrix = getattr(empty.get_output_embeddings(), "weight", None)
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
        head=matrix.numel() if matrix is not None and matrix.requires_grad else 0,
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


def resident_bytes() -> int:
    """Return the bytes of memory that this process has; 0 if the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


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
    if free is not None and needs.process + needs.standing > free:
        smaller = "take a smaller model" if config.lora_rank else "set lora_rank (such as 16), take a smaller model"
        raise UsageError(
            f"this run does not fit: weights, gradients and optimizer need {format_bytes(needs.standing)}, "
            f"{format_bytes(free - needs.process)} are free; {smaller} or a larger machine"
        )
    if free is not None and needs.peak > free:
        updating = needs.update > needs.generation
        part = "the update" if updating else "generation"
        settings = "micro_batch_tokens, or set gradient_checkpointing" if updating else "generation_rows or max_new_tokens"
        raise UsageError(
            f"this run does not fit: with {part} it needs {format_bytes(needs.peak)}, {format_bytes(free)} are free; "
            f"lower {settings}"
        )
    disk = free_disk_bytes(config.output)
    if needs.checkpoints > disk:
        raise UsageError(
            f"output: the checkpoints need {format_bytes(needs.checkpoints)} on disk, {format_bytes(disk)} are free; "
            f"lower keep_checkpoints or name another folder"
        )


def purposes(needs: Memory) -> dict[str, int]:
    """Return the bytes of device memory in `needs` by purpose. The keys are phrases such as `reference model`."""
    return {
        "this process before it loads the model": needs.process,
        "weights": needs.weights,
        "gradients": needs.gradients,
        "AdamW's two moments": needs.optimizer,
        "reference model": needs.reference,
        "critic with its gradients and moments": needs.critic,
        "copy of the weights to sample from": needs.copied,
        "generation: KV cache": needs.kv_cache,
        "generation: copies of small weights": needs.sampler,
        "generation: logits of one token": needs.sampling,
        "update: activations of a micro-batch": needs.activations,
        "update: a chunk of logits": needs.logits,
        "update: gradient of the output matrix": needs.head,
    }


def tables(estimate: RunEstimate) -> tuple[Table, Table]:
    """Return the two tables that `--dry-run` prints."""
    needs, most, config, steps = estimate.memory, estimate.most_memory, estimate.config, estimate.config.steps
    adapters = f" and {sum(estimate.shape.trained):,} in adapters" if config.lora_rank else ""
    title = f"{estimate.shape.parameters:,} parameters{adapters}, {config.dtype}, native generation"
    bytes_ = Table(title=title, title_justify="left")
    for name in ("memory", "expected", "at most"):
        bytes_.add_column(name, justify="left" if name == "memory" else "right")
    for name, size in purposes(most).items():
        if size:
            bytes_.add_row(name, format_bytes(purposes(needs)[name]), format_bytes(size))
    bytes_.add_section()
    how = "generation and update added" if needs.together else "generation and update in turn"
    bytes_.add_row(f"all, {how}", format_bytes(needs.peak), format_bytes(most.peak))
    free = "unknown" if estimate.free_bytes is None else format_bytes(estimate.free_bytes)
    bytes_.add_row("free for this run", free, free, end_section=True)
    disk = format_bytes(free_disk_bytes(config.output))
    bytes_.add_row("checkpoints on disk", format_bytes(needs.checkpoints), format_bytes(most.checkpoints))
    bytes_.add_row("free on disk", disk, disk)

    caption = f"Completion lengths: {_where_from(estimate.ended)}."
    if estimate.waiting > BUSY:
        quiet = f"without others the times would be about {1 - estimate.waiting:.0%} of these"
        caption += f" Others kept the machine busy: {estimate.waiting:.0%} of the time went by waiting for a core; {quiet}."
    work = Table(caption=caption, caption_justify="left")
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
        "memory_at_most_bytes": {**asdict(estimate.most_memory), "peak": estimate.most_memory.peak},
        "free_bytes": estimate.free_bytes,
        "free_disk_bytes": free_disk_bytes(estimate.config.output),
        "expected": work(estimate.expected),
        "most": work(estimate.most),
        "ended": estimate.ended,
        "waiting": estimate.waiting,
        "proposals": [asdict(proposal) for proposal in estimate.proposals],
    }


def _where_from(ended: float) -> str:
    if ended == 1:
        return "every measured completion ended by itself"
    if ended == 0:
        return "no measured completion ended by itself, so the upper bound stands for the expectation"
    return f"{ended:.0%} of the measured completions ended by themselves, the others are guessed from those"


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)
