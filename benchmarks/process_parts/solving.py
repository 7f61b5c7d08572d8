"""A model from nothing that knows running sums half, and graded samples of it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from process_parts.running_sums import RunningSums
from verigym.envs.contract.schema import Completion, Prompt, Score, Status
from verigym.envs.grading import Grader
from verigym.envs.metrics import Cluster, bootstrap_interval
from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.rng import keyed_int
from verigym.trainer.stages.examples import Example, to_pairs
from verigym.trainer.stages.quickstart import cold_start
from verigym.trainer.stages.scratch import tokenizer_texts

TOKENS = 56
"""Most tokens of a solution; a right one of six numbers has 50."""
Solved = tuple[Prompt, list[str], list[Score]]


def cold_started(folder: Path, options: dict[str, Any], steps: int, seed: int, layers: int = 2) -> Path:
    """Make a model and train it on worked sums for so many steps; return its folder. With two layers it has 0.4M parameters."""
    told = re.sub(r"\W+", "_", "-".join(f"{name}{value}" for name, value in options.items()))
    name = folder / f"model-{told}-{layers}layers-{steps}steps-seed{seed}"
    if name.exists():
        return name
    environment = RunningSums(**options)

    written = [environment.demonstration("train", keyed_int("cold start", seed), n) for n in range(max(1200, 32 * steps))]
    examples = [Example(prompt.messages, text) for prompt, text in written]
    tokenizer = scratch_tokenizer(tokenizer_texts(examples[:1200]))
    model = scratch_qwen3(tokenizer, hidden_size=128, layers=layers, intermediate_size=320, seed=seed)
    codec = Codec(tokenizer, model.generation_config)
    cold_start(model, codec, to_pairs(examples, codec), steps=steps, batch_size=32, peak_learning_rate=3e-3)
    partial = name.with_name(f".{name.name}.partial")
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    os.replace(partial, name)
    return name


def opened(folder: Path) -> tuple[NativeEngine, Codec]:
    """Return what samples from a saved model; the model is `engine.model`."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    codec = Codec(AutoTokenizer.from_pretrained(folder), model.generation_config)
    return NativeEngine(model, codec, rows_at_a_time=256, dtype="fp32"), codec


def different_tasks(environment: Any, split: str, seed: int, count: int) -> list[Prompt]:
    """Return so many tasks of a split without repetitions; fewer where most are the same."""
    tasks: dict[str, Prompt] = {}
    for index in range(2 * count):
        task = environment.prompt_at(split, seed, index)
        tasks.setdefault(task.key, task)
    return list(tasks.values())[:count]


def solve(
    engine: NativeEngine, codec: Codec, grader: Grader, tasks: Sequence[Prompt], key: tuple[object, ...], samples: int
) -> list[Solved]:
    """Sample so many solutions a task at temperature 1 and grade them."""
    futures: dict[tuple[int, int], Any] = {}
    texts: dict[tuple[int, int], str] = {}

    def grade(task: int, sample: int, done: Generated) -> None:
        texts[task, sample] = codec.decode(done.token_ids)
        completion = Completion(text=texts[task, sample], finish_reason=done.finish_reason)
        futures[task, sample] = grader.submit(tasks[task], completion)

    engine.generate(
        [codec.encode(task) for task in tasks],
        [[("solve", *key, task.key, sample) for sample in range(samples)] for task in tasks],
        max_new_tokens=TOKENS,
        temperature=1.0,
        on_finished=grade,
    )
    rows = range(samples)
    return [(task, [texts[n, g] for g in rows], [futures[n, g].result() for g in rows]) for n, task in enumerate(tasks)]


def correct(scores: Sequence[Score]) -> list[bool]:
    """Return which are right."""
    return [score.status is Status.CORRECT for score in scores]


def share(clusters: Sequence[Cluster]) -> list[float]:
    """Return the share, and both ends of its 95% interval, over tasks."""
    interval = bootstrap_interval(clusters)
    mean = sum(one.correct for one in clusters) / max(1, sum(one.n for one in clusters))
    return [round(value, 3) for value in (mean, *(interval or (mean, mean)))]


def tell(what: str, clock: float) -> None:
    """Say what is done."""
    print(f"{what} ({time.process_time() - clock:.0f} s of CPU)", file=sys.stderr, flush=True)
