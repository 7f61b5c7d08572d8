"""`verigym quickstart`: makes a model with random weights, fine-tunes it on worked solutions, then trains it by GRPO.

It runs the same code as the pipeline stages `scratch`, `sft` and `grpo`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from verigym.envs.console import open_console
from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints.store import Timer, prepare
from verigym.trainer.checkpoints.tensors import save_tensors
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.learner.optimizers import clipped_step, learning_rate
from verigym.trainer.logprobs.forward import completion_logprobs
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.monitoring.progress import Progress, StopRequest
from verigym.trainer.monitoring.report import write_report
from verigym.trainer.rng import keyed_int
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.rollout.held_out import evaluate
from verigym.trainer.stages.examples import Pair, demonstrations, to_pairs
from verigym.trainer.stages.scratch import completed_folder, tokenizer_texts
from verigym.trainer.tasks.mixture import build_source
from verigym.trainer.threads import own_threads, use_threads

if TYPE_CHECKING:
    from rich.console import Console

# name -> (options, weight): the two with more different tasks get more of the prompts.
TASKS: dict[str, tuple[dict[str, Any], float]] = {
    "arithmetic": ({"digits": 2, "operations": "+"}, 2.0),
    "story": ({}, 2.0),
    "units": ({}, 1.0),
    "bases": ({}, 1.0),
}
# These two are rewarded only where the format holds as well: thoughts, then exactly one box, nothing outside.
GATED = ("units", "story")


TOKENIZER_TEXTS = 1200
"""Demonstrations that the tokenizer is trained on."""
WARMUP_STEPS = 30
"""Cold-start steps of linear rise of the learning rate."""
SAVE_MINUTES = 1.0
"""Time between two saves of an unfinished cold start; a stop on request saves too."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the quickstart: numbers of steps, prompts and evaluations. The defaults take a few minutes on two CPU cores."""

    cold_start_steps: int = 300
    cold_start_batch: int = 32
    cold_start_learning_rate: float = 2e-3
    grpo_steps: int = 400
    prompts_per_step: int = 24
    group_size: int = 8
    learning_rate: float = 2e-4
    eval_prompts: int = 150
    eval_every: int = 50


@dataclass(frozen=True)
class Result:
    """Results of the quickstart. Accuracies are on held-out prompts with greedy decoding, as the mean over the sources."""

    untrained: float
    cold_start: float
    grpo: float
    seconds: float
    curves: Path
    samples: Path


@own_threads()
def quickstart(output: Path, seed: int = 0, sizes: Sizes | None = None, threads: int | None = None) -> Result:
    """Train a small model, print its held-out accuracy before and after each stage, and return the accuracies.

    If the process is killed or asked to stop, the same call resumes.

    Args:
        output: folder for the model, the logs and the report.
        seed: key of all randomness.
        sizes: numbers of steps and prompts.
        threads: number of CPU threads; None to choose by the model's size and the usable cores, see `trainer/threads.py`.

    Raises:
        UsageError: the folder cannot be written, or holds a quickstart of another seed or size.
        Interrupted: Ctrl-C, SIGTERM or SIGUSR1.
    """
    sizes = sizes or Sizes()
    prepare(output)
    console = open_console(stderr=True)
    start = time.perf_counter()
    config = _config(output, seed, sizes, threads)
    with StopRequest(at_once="before the cold start") as stop:
        before = _cold_started(Path(config.model), config, sizes, console, stop)
    console.print(f"GRPO: {sizes.grpo_steps} steps of {sizes.prompts_per_step} prompts x {sizes.group_size} completions")
    train(config)
    rows = read_rows(config.output / "metrics.jsonl")
    evaluations = [row for row in rows if row["kind"] == "eval"]
    rewards = [row["reward"] for row in rows if row["kind"] == "train" and "reward" in row]
    after_start, after_grpo = evaluations[0]["accuracy"], evaluations[-1]["accuracy"]
    summary = [
        ("held-out accuracy, untrained", f"{before:.3f}"),
        ("held-out accuracy after the cold start", f"{after_start:.3f}"),
        ("held-out accuracy after GRPO", f"{after_grpo:.3f}"),
        ("gain from GRPO", f"{after_grpo - after_start:+.3f}"),
    ]
    curves, samples = write_report(config.output, f"verigym quickstart, seed {seed}", summary)
    seconds = time.perf_counter() - start
    for name, value in summary:
        print(f"{name:40s} {value}")
    if rewards:
        print(f"{'mean reward, first and last 10 steps':40s} {fmean(rewards[:10]):.3f} {fmean(rewards[-10:]):.3f}")
    print(f"{'minutes':40s} {seconds / 60:.1f}")
    print(f"curves: {curves}\nsamples: {samples}\nmodel: {config.output / 'final'}")
    return Result(before, after_start, after_grpo, seconds, curves, samples)


def _config(output: Path, seed: int, sizes: Sizes, threads: int | None) -> TrainConfig:
    fields: dict[str, Any] = {
        "model": str(output / "cold_start"),
        "output": str(output / "grpo"),
        "seed": seed,
        "sources": [
            {"environment": name, "options": options, "weight": weight, "format": {} if name in GATED else None}
            for name, (options, weight) in TASKS.items()
        ],
        "steps": sizes.grpo_steps,
        "prompts_per_step": sizes.prompts_per_step,
        "group_size": sizes.group_size,
        "max_new_tokens": 40,
        "learning_rate": sizes.learning_rate,
        "schedule": "linear",
        "eval_prompts": sizes.eval_prompts,
        "eval_every": sizes.eval_every,
        "checkpoint_every": 50,
        "device": "cpu",
        "threads": threads,
    }
    return build_config(fields, "quickstart")


def _cold_started(folder: Path, config: TrainConfig, sizes: Sizes, console: Console, stop: StopRequest) -> float:
    """Make the model after the cold start, unless its folder exists, and return the accuracy of the untrained model.

    Until it is made, a folder beside it keeps what is finished: the accuracy, and the state of the training.
    """
    unfinished = folder.with_name("cold_start.unfinished")
    made_with = {"seed": config.seed, **asdict(sizes)}
    made_with = {name: value for name, value in made_with.items() if name == "seed" or name.startswith("cold_start")}
    before = _untrained_accuracy(folder, made_with) if folder.exists() else None
    if before is not None:
        shutil.rmtree(unfinished, ignore_errors=True)  # a kill may have left it
        return before
    count = max(TOKENIZER_TEXTS, sizes.cold_start_steps * sizes.cold_start_batch)
    examples = demonstrations(config.sources, "train", count, keyed_int("cold start", config.seed))
    tokenizer = scratch_tokenizer(tokenizer_texts(examples[:TOKENIZER_TEXTS]))
    model = scratch_qwen3(tokenizer, seed=config.seed)
    codec = Codec(tokenizer, model.generation_config)
    sources = [build_source(source, config.seed, config.eval_prompts) for source in config.sources]
    threads = use_threads(model, config.threads)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"Qwen3 model from nothing: {parameters / 1e6:.1f}M parameters, {threads}")
    before = _untrained_accuracy(unfinished, made_with) if unfinished.exists() else None
    if before is None:
        with open_graders(sources, config) as graders, threads.while_sampling():
            engine = NativeEngine(model, codec, rows_at_a_time=config.generation_rows, dtype=config.dtype)
            metrics, groups = evaluate(engine, codec, sources, graders, config)
        if "accuracy" not in metrics:
            raise UsageError(f"no completion could be graded: {groups[0].scores[0].reason}")
        before = metrics["accuracy"]
        with completed_folder(unfinished) as partial:
            (partial / NOTE).write_text(json.dumps({"accuracy": before, "made_with": made_with}), encoding="utf-8")
    console.print(f"untrained: held-out accuracy {before:.3f}")
    console.print(f"cold start: {sizes.cold_start_steps} supervised steps on {sizes.cold_start_batch} demonstrations each")

    pairs = to_pairs(examples, codec)
    stop.begin()
    with Progress(sizes.cold_start_steps, 0, title="cold start", shown=("loss",)) as progress:
        cold_start(
            model,
            codec,
            pairs,
            steps=sizes.cold_start_steps,
            batch_size=sizes.cold_start_batch,
            peak_learning_rate=sizes.cold_start_learning_rate,
            on_step=lambda step, loss: progress.step(step, {"loss": loss}),
            state=unfinished / "state.pt",
            stop=stop,
        )
    with completed_folder(folder) as partial:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        shutil.copy(unfinished / NOTE, partial)
    shutil.rmtree(unfinished)
    return before


NOTE = "untrained.json"


def _untrained_accuracy(folder: Path, made_with: dict[str, Any]) -> float:
    note = folder / NOTE
    record = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    if record.get("made_with") != made_with:
        raise UsageError(f"{folder} was not made with {made_with}; set the output to a new folder")
    return float(record["accuracy"])


def cold_start(
    model: Any,
    codec: Codec,
    pairs: Sequence[Pair],
    *,
    steps: int,
    batch_size: int,
    peak_learning_rate: float,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
    state: Path | None = None,
    stop: StopRequest | None = None,
) -> None:
    """Train `model`, in place, to minimise the mean negative log-likelihood of the completions' tokens.

    This is the stage `sft` without packing, epochs and logs, for a model in memory. Pairs are taken in order, and after
    the last pair again from the first; they are not shuffled, so no seed is needed.

    Args:
        model: a transformers causal language model.
        codec: the model's tokenizer.
        pairs: prompts with completions in tokens, at least one.
        steps: number of optimizer updates.
        batch_size: pairs per update.
        peak_learning_rate: reached after `WARMUP_STEPS`, then constant.
        on_step: called with the number of finished steps and the loss in nats per token.
        state: file for the weights, the optimizer's state and the number of steps; if it exists, training resumes from it.
        stop: tells whether to stop. The state is then saved.

    Raises:
        Interrupted: a stop was requested.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    begin = 0
    if state is not None and state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    timer = Timer(SAVE_MINUTES)
    for step in range(begin, steps):
        batch = [pairs[(step * batch_size + row) % len(pairs)] for row in range(batch_size)]
        prompts, completions = [pair.prompt_ids for pair in batch], [pair.token_ids for pair in batch]
        logp_BT, mask_BT = completion_logprobs(model, prompts, completions, temperature=1.0, pad_id=codec.pad_id)
        loss = -logp_BT.sum() / mask_BT.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        rate = learning_rate(step, peak=peak_learning_rate, warmup=WARMUP_STEPS, total=steps, schedule="constant")
        clipped_step(optimizer, rate, 1.0, step)
        on_step(step + 1, loss.item())
        stopping = stop is not None and stop.requested
        if state is not None and (stopping or timer.due):
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            save_tensors(saved, state.with_name(f".{state.name}"))
            os.replace(state.with_name(f".{state.name}"), state)
            timer.restart()
        if stop is not None and stopping:
            raise stop.interrupted(f"cold start: stopped after step {step + 1} of {steps}")
    model.eval()
